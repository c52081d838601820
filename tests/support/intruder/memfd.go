package main

import (
	"runtime"
	"syscall"
	"unsafe"
)

// memoryFile makes one; the package syscall has no function for it.
func memoryFile(name *byte) (int, error) {
	number := map[string]uintptr{"amd64": 319, "arm64": 279}
	fd, _, errno := syscall.RawSyscall(number[runtime.GOARCH], uintptr(unsafe.Pointer(name)), 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
