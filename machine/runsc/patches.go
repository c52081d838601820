package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A patch mends one line of the pinned gVisor. The old text must be there exactly once: a gVisor that has changed there fails the
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
}

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
