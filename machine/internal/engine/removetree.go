package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// removeTree does not enter mounts: if a workspace's disk is still mounted by mistake, its files must survive.
func removeTree(path string) error {
	parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", filepath.Dir(path), err)
	}
	defer unix.Close(parent)
	return removeAt(parent, path)
}

func removeAt(parent int, path string) error {
	name := filepath.Base(path)
	err := unix.Unlinkat(parent, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	if err := emptyAt(parent, path); err != nil {
		return err
	}
	if err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

func emptyAt(parent int, path string) error {
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_BENEATH}
	fd, err := unix.Openat2(parent, filepath.Base(path), how)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if errors.Is(err, unix.EXDEV) {
		return fmt.Errorf("remove %s: it is a mount still: %w", path, unix.EBUSY)
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := removeAt(fd, filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return nil
}
