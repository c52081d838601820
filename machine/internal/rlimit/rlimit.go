// Package rlimit sets this process's own limits. Its children inherit them.
package rlimit

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// RaiseOpenFiles permits this process and its children to open `wanted` files. If the hard limit cannot be raised, as
// in a container, it raises the soft limit to the hard one. Go's children inherit only a limit that was set explicitly.
func RaiseOpenFiles(wanted uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	raised := syscall.Rlimit{Cur: max(limit.Cur, wanted), Max: max(limit.Max, wanted)}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised); err == nil {
		return nil
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raising the limit of open files: %w", err)
	}
	return nil
}

// NoCoreFiles disables core files of this process and its children: memory contains keys and guests' data.
func NoCoreFiles() error { return NoCoreFilesOf(0) }

// NoCoreFilesOf disables core files of another process; 0 is this one. It sets a limit of one byte, because the kernel
// ignores a limit of zero if core files are piped to a program.
func NoCoreFilesOf(pid int) error {
	var had unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &had)
	if err == nil {
		least := min(1, had.Max) // only root may raise the hard limit
		err = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{Cur: least, Max: least}, nil)
	}
	if err != nil {
		return fmt.Errorf("forbidding core files: %w", err)
	}
	return nil
}
