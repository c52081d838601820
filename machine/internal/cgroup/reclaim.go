package cgroup

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Memory is reclaimed in small steps, so that a thaw is noticed between two steps.
const reclaimStep = 64 << 20

// OfferMemory moves a frozen group's memory to compressed swap, until the group is thawed or no more can be reclaimed.
// It skips swap on a disk: the first call after the thaw would wait for its pages.
func (g *Group) OfferMemory() error {
	swaps, err := os.ReadFile("/proc/swaps")
	if err != nil {
		return err
	}
	zswap, _ := os.ReadFile("/sys/module/zswap/parameters/enabled") // an error means that the kernel has no zswap
	if !isCompressed(string(swaps), string(zswap)) {
		return nil
	}
	return g.v.offerMemory(g.path)
}

// The first line is a heading. All swap areas must be compressed, because the kernel chooses among them.
func isCompressed(swaps, zswap string) bool {
	places := strings.Split(strings.TrimSpace(swaps), "\n")[1:]
	for _, place := range places {
		if !strings.HasPrefix(place, "/dev/zram") && !strings.HasPrefix(strings.TrimSpace(zswap), "Y") {
			return false
		}
	}
	return len(places) > 0
}

// cgroup v1 has no proactive reclaim, so this does nothing.
func (v *versionOne) offerMemory(string) error { return nil }

// Swap is permitted only while the group is frozen, because a running machine must not lose pages in use.
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
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, os.ErrNotExist) { // nothing more can be reclaimed; or the kernel (before 5.19) cannot reclaim
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
