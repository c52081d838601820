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
	// mountsOf is the table of the guest's first process, whose root is the guest's.
	mountsOf  = "/proc/1/mountinfo"
	mountsMax = 256 << 10
)

// onDisk says that everything at and below a path lies on the workspace's disk under the same path, and nothing of it is mounted over. No link
// leads there: it could lead elsewhere for one who has no mounts. It is false where that cannot be known.
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
	return roots == 1 // anything else is not what the kernel writes of a guest
}

// within says that a path is another or lies below it.
func within(inner, outer string) bool {
	return inner == outer || strings.HasPrefix(inner, strings.TrimSuffix(outer, "/")+"/")
}
