package pool

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Sync writes the dirty data of all workspaces, which may take long. So call it before a guest is paused, and again
// afterwards. path is in the pool, or "".
func (p *Pool) Sync(path string) error {
	if path == "" {
		path = p.config.Mount
	}
	return withOpen(path, func(fd int) error { return unix.Syncfs(fd) })
}

// FlushFile makes a file's content durable. Its name is durable only after SyncDir.
func FlushFile(path string) error { return withOpen(path, unix.Fsync) }

// SyncDir makes a directory's names durable.
func SyncDir(path string) error { return withOpen(path, unix.Fsync) }

// CloneFile makes dst share the blocks of src, within one pool. dst must not exist.
func CloneFile(dst, src string) error {
	source, err := os.OpenFile(src, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	err = unix.IoctlFileClone(int(target.Fd()), int(source.Fd()))
	if err = errors.Join(err, target.Close()); err != nil {
		os.Remove(dst)
		return fmt.Errorf("clone %s to %s: %w", src, dst, err)
	}
	return nil
}

func withOpen(path string, do func(fd int) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := do(int(file.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}
