package cgroup

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A thaw is noticed between steps.
const reclaimStep = 64 << 20

// OfferMemory moves a frozen group's memory to compressed swap, until it runs again or no more can be reclaimed. From
// swap on a disk, the first call would wait for its pages.
func (g *Group) OfferMemory() error {
	swaps, err := os.ReadFile("/proc/swaps")
	if err != nil {
		return err
	}
	zswap, _ := os.ReadFile("/sys/module/zswap/parameters/enabled") // the kernel may have no zswap
	if !isCompressed(string(swaps), string(zswap)) {
		return nil
	}
	return g.v.offerMemory(g.path)
}

// The first line is a heading. The kernel chooses the device, so all must be compressed.
func isCompressed(swaps, zswap string) bool {
	places := strings.Split(strings.TrimSpace(swaps), "\n")[1:]
	for _, place := range places {
		if !strings.HasPrefix(place, "/dev/zram") && !strings.HasPrefix(strings.TrimSpace(zswap), "Y") {
			return false
		}
	}
	return len(places) > 0
}

// v1 has no proactive reclaim.
func (v *versionOne) offerMemory(string) error { return nil }

// A running machine must not lose pages in use. Pages in swap return with their use.
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
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, os.ErrNotExist) { // nothing more to reclaim; a kernel before 5.19
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
