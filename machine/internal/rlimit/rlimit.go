// Package rlimit sets this process's own limits. Its children inherit them.
package rlimit

import (
	"fmt"
	"syscall"
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
func NoCoreFiles() error {
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("forbidding core files: %w", err)
	}
	return nil
}
