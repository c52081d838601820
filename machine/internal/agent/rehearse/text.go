// Package rehearse does in a waiting slot what would make the first call of a machine slower than the second: each first touch of a
// page of the program costs a trip into the sandbox's kernel.
package rehearse

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Quiet is how long a process waits for its first work before it rehearses: a slot that somebody waits for is claimed at once, and
// must not be busy with itself.
const Quiet = 40 * time.Millisecond

// Text maps every page of this program's code and constants.
func Text() {
	for _, r := range Ranges() {
		r.Map()
	}
}

// A Range of addresses, the end not included.
type Range struct{ Start, End uintptr }

// Map maps every page. Locking does that in one call; nothing stays locked. It may be called where there is no Go runtime to help.
//
//go:norace
//go:nosplit
func (r Range) Map() {
	if _, _, errno := unix.RawSyscall(unix.SYS_MLOCK, r.Start, r.End-r.Start, 0); errno == 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_MUNLOCK, r.Start, r.End-r.Start, 0)
	}
}

// Ranges are this program's code and constants.
func Ranges() (ranges []Range) {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil // the pages come one by one then
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if start, end, ok := programRange(lines.Text()); ok {
			ranges = append(ranges, Range{start, end})
		}
	}
	return ranges
}

// programRange reads a line of /proc/self/maps; ok is for read-only mappings of a file.
func programRange(line string) (start, end uintptr, ok bool) {
	var flags string
	if n, err := fmt.Sscanf(line, "%x-%x %s", &start, &end, &flags); n != 3 || err != nil {
		return 0, 0, false
	}
	return start, end, strings.Contains(line, "/") && strings.HasPrefix(flags, "r-") && end > start
}
