package cgroup

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// reclaimStep bounds what is asked for at once: a thaw in between is noticed after so much.
const reclaimStep = 64 << 20

// OfferMemory gives the memory of a frozen group to the host's swap where that is compressed memory, piece by piece until the group
// runs again or nothing more goes. Elsewhere it does nothing: a disk would make the first call wait for its pages.
func (g *Group) OfferMemory() error {
	swaps, err := os.ReadFile("/proc/swaps")
	if err != nil {
		return err
	}
	zswap, _ := os.ReadFile("/sys/module/zswap/parameters/enabled") // a kernel without it has none
	if !isCompressed(string(swaps), string(zswap)) {
		return nil
	}
	return g.v.offerMemory(g.path)
}

// isCompressed reads /proc/swaps: its first line is a heading. Every place of swap must be compressed, since the kernel chooses.
func isCompressed(swaps, zswap string) bool {
	places := strings.Split(strings.TrimSpace(swaps), "\n")[1:]
	for _, place := range places {
		if !strings.HasPrefix(place, "/dev/zram") && !strings.HasPrefix(strings.TrimSpace(zswap), "Y") {
			return false
		}
	}
	return len(places) > 0
}

// The controller of v1 cannot be asked for a part of it.
func (v *versionOne) offerMemory(string) error { return nil }

// offerMemory allows swap for as long as it asks: a machine that runs again is not to lose pages that somebody waits for. What is in swap
// already comes back as it is used.
func (v *versionTwo) offerMemory(group string) error {
	if !v.has("memory") {
		return nil
	}
	if err := write(v.file(group, "memory.swap.max"), "max"); err != nil {
		return err
	}
	return errors.Join(v.reclaimFrozen(group), v.noSwap(group))
}

func (v *versionTwo) reclaimFrozen(group string) error {
	for {
		frozen, err := v.frozen(group)
		if err != nil || !frozen {
			return err
		}
		before, err := readInt(v.file(group, "memory.current"))
		if err != nil {
			return err
		}
		err = write(v.file(group, "memory.reclaim"), strconv.Itoa(reclaimStep))
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, os.ErrNotExist) { // no more can be had; a kernel before 5.19
			return nil
		}
		if err != nil {
			return err
		}
		if after, err := readInt(v.file(group, "memory.current")); err != nil || after >= before {
			return err
		}
	}
}
