package layers

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Detached mounts directories over each other for a reader, topmost first and at least two, in a mount namespace that nobody else ever
// sees and that ends with this call: what is left is a descriptor of the mount. A mount in hostd's own namespace would be copied into
// whatever sandbox starts at that moment, and keep the disk for as long as that lives.
func Detached(lower []string, point string) (*os.File, error) {
	type result struct {
		disk *os.File
		err  error
	}
	made := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function, and its namespace with the thread
		disk, err := mountHere(lower, point)
		made <- result{disk, err}
	}()
	r := <-made
	return r.disk, r.err
}

func mountHere(lower []string, point string) (*os.File, error) {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return nil, fmt.Errorf("a mount namespace for the disk: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, err
	}
	if err := ReadOnly(lower, point); err != nil {
		return nil, err
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, point, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("taking the disk's mount: %w", err)
	}
	if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "disk"), nil
}
