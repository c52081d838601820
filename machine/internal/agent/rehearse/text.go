// Package rehearse warms up a waiting sandbox, because the first access to each page of code is a trip into the
// sandbox's kernel.
package rehearse

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Quiet is the pause before the warm-up. A sandbox whose caller waits is claimed at once, and must not be busy.
const Quiet = 40 * time.Millisecond

func Text() {
	for _, r := range Ranges() {
		r.Map()
	}
}

// Range has an exclusive End.
type Range struct{ Start, End uintptr }

// Map maps the pages of a range. It needs no Go runtime, so a forked child can call it.
//
//go:norace
//go:nosplit
func (r Range) Map() {
	if _, _, errno := unix.RawSyscall(unix.SYS_MLOCK, r.Start, r.End-r.Start, 0); errno == 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_MUNLOCK, r.Start, r.End-r.Start, 0)
	}
}

func Ranges() (ranges []Range) {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil // pages are then mapped on first use
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if start, end, ok := programRange(lines.Text()); ok {
			ranges = append(ranges, Range{start, end})
		}
	}
	return ranges
}

func programRange(line string) (start, end uintptr, ok bool) {
	var flags string
	if n, err := fmt.Sscanf(line, "%x-%x %s", &start, &end, &flags); n != 3 || err != nil {
		return 0, 0, false
	}
	return start, end, strings.Contains(line, "/") && strings.HasPrefix(flags, "r-") && end > start
}
