package pool

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// SealFile replaces a file that may have a writer by a copy that shares its blocks. An earlier descriptor or mapping
// cannot change the copy. No process may open the file for writing during the call.
func SealFile(path string) error {
	writable, err := hasWriter(path)
	if err != nil || !writable {
		return err
	}
	copied := path + ".settled"
	if err := CloneFile(copied, path); err != nil {
		return err
	}
	if err := os.Rename(copied, path); err != nil {
		os.Remove(copied)
		return err
	}
	return nil
}

// hasWriter requests a read lease, which the kernel grants only if no process has the file open for writing.
func hasWriter(path string) (bool, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false, err
	}
	defer file.Close()
	_, err = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if errors.Is(err, unix.EAGAIN) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("whether %s is open for writing: %w", path, err)
	}
	return false, nil // closing the descriptor ends the lease
}
