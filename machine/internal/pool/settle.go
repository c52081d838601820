package pool

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// SettleFile makes sure that nobody can change the file at a path any more through a descriptor or a mapping from before. A file that
// somebody else can still write gives its place to a copy that shares its blocks. Nobody may open it for writing meanwhile.
func SettleFile(path string) error {
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

// hasWriter asks for a lease on reading, which the kernel gives only on a file that is open for writing nowhere.
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
	return false, nil // the lease ends with the descriptor
}
