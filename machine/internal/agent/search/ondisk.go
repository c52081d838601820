package search

import (
	"bytes"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/mountpoints"
)

const (
	// The guest's init has the guest's root, so its table lists the guest's mounts.
	mountsOf  = "/proc/1/mountinfo"
	mountsMax = 256 << 10
)

// onDisk reports whether the tree at start is the same on the disk. No mount may cover a part of the tree, and start
// may contain no link, which could lead elsewhere without mounts.
func onDisk(r *guestroot.Root, start string) bool {
	if r.Alone() || path.Clean(start) != start {
		return false
	}
	fd, err := r.OpenPlain(start, unix.O_PATH)
	if err != nil {
		return false
	}
	unix.Close(fd)
	table, err := r.ReadSmall(mountsOf, mountsMax)
	if err != nil || len(table) == mountsMax {
		return false
	}
	points, err := mountpoints.Read(bytes.NewReader(table))
	if err != nil {
		return false
	}
	roots := 0
	for _, point := range points {
		if point == "/" {
			roots++
		} else if within(start, point) || within(point, start) {
			return false
		}
	}
	return roots == 1 // a guest's mount table has exactly one root
}

func within(inner, outer string) bool {
	return inner == outer || strings.HasPrefix(inner, strings.TrimSuffix(outer, "/")+"/")
}
