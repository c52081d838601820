// Package rlimit sets this process's own limits. Its children inherit them.
package rlimit

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// RaiseOpenFiles lets this process and its children have `wanted` files open. Inside a container, where the hard limit may only be
// used and not raised, it takes what there is. Setting the limit by hand is what makes Go's children inherit it.
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

// NoCoreFiles keeps this process and its children from ever writing their memory to a file: keys and guests are in it.
func NoCoreFiles() error { return NoCoreFilesOf(0) }

// NoCoreFilesOf does it for another process; 0 is this one. A limit of one byte is less than any file has, and is the one that the kernel
// heeds where core files go to a program: of a limit of zero it takes no notice then.
func NoCoreFilesOf(pid int) error {
	var had unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &had)
	if err == nil {
		least := min(1, had.Max) // only root may raise it
		err = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{Cur: least, Max: least}, nil)
	}
	if err != nil {
		return fmt.Errorf("forbidding core files: %w", err)
	}
	return nil
}
