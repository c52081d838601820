// Package sealed makes memory files that no process can change, through any descriptor or /proc link.
package sealed

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL

// FD returns a descriptor of a memory file with this content. It is closed on exec, and may itself be executed.
func FD(name string, content []byte) (int, error) {
	fd, err := create(name)
	if err != nil {
		return -1, fmt.Errorf("memfd_create: %w", err)
	}
	if err := fill(fd, content); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("memory file %s: %w", name, err)
	}
	return fd, nil
}

// create requests an executable file, because a host may forbid that by default. Kernels before 6.3, and gVisor, refuse
// the flag, so it is omitted there.
func create(name string) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if err == unix.EINVAL {
		return unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	return fd, err
}

func fill(fd int, content []byte) error {
	for len(content) > 0 {
		n, err := unix.Write(fd, content)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		content = content[n:]
	}
	_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	return err
}
