package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A patch mends one place of the pinned gVisor. The old text must be there exactly once: a gVisor that has changed there fails the
// build, so that whoever moves the pin looks whether the patch is still needed.
type patch struct {
	file, old, new string
}

var patches = []patch{
	{
		// The cgroup freezer interrupts the notification of a stub whose semaphore has counted it already: the ioctl then says
		// ENOENT, and systrap takes that for the stub's death. Without this a guest that is frozen twice loses processes.
		file: "gvisor.dev/gvisor/pkg/sentry/platform/systrap/syscall_thread_unsafe.go",
		old:  "if errno == unix.EINTR && t.subproc.alive() {",
		new:  "if (errno == unix.EINTR || errno == unix.ENOENT) && t.subproc.alive() {",
	},
	{
		// A save looks for what is zero by reading every page that the guest may have written. Reading one that nobody ever wrote
		// makes the kernel allocate and clear it, and gVisor give it back: half of the save of a small guest, all of it with the
		// guest at a stand. The host knows which pages of the memory file exist: one in a hole has no byte but zero. A page that
		// was swapped out counts as existing (mincore would deny it), a question the host cannot answer too, and what exists is
		// compared as ever. Offsets only grow, and the guest stands still, so one extent is remembered.
		file: saveRestore,
		old:  "\tzeroPage := make([]byte, hostarch.PageSize)\n\t// f.mu is unlocked below",
		new: `	zeroPage := make([]byte, hostarch.PageSize)
	var dataStart, dataEnd uint64
	isHole := func(off uint64) bool {
		if off >= dataEnd {
			start, err := unix.Seek(int(f.file.Fd()), int64(off), unix.SEEK_DATA)
			if err == unix.ENXIO {
				dataStart, dataEnd = math.MaxUint64, math.MaxUint64
				return true
			}
			if err != nil {
				return false
			}
			end, err := unix.Seek(int(f.file.Fd()), start, unix.SEEK_HOLE)
			if err != nil {
				return false
			}
			dataStart, dataEnd = uint64(start), uint64(end)
		}
		return off < dataStart
	}
	// f.mu is unlocked below`,
	},
	{
		file: saveRestore,
		old:  "isZeroed := bytes.Equal(pg, zeroPage)",
		new:  "inHole := isHole(off)\n\t\t\t\tisZeroed := inHole || bytes.Equal(pg, zeroPage)",
	},
	{
		// What was not read was not allocated, so there is nothing to give back.
		file: saveRestore,
		old:  "\t\t\t\t\t\tdecommitAddPage(off)\n",
		new:  "\t\t\t\t\t\tif !inHole {\n\t\t\t\t\t\t\tdecommitAddPage(off)\n\t\t\t\t\t\t}\n",
	},
}

const saveRestore = "gvisor.dev/gvisor/pkg/sentry/pgalloc/save_restore.go"

func (p patch) applyTo(vendor string) error {
	path := filepath.Join(vendor, p.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := strings.Count(string(source), p.old); n != 1 {
		return fmt.Errorf("%s: expected %q once, found it %d times", p.file, p.old, n)
	}
	return os.WriteFile(path, []byte(strings.Replace(string(source), p.old, p.new, 1)), 0o644)
}
