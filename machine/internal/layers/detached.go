package layers

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Detached mounts two or more directories, topmost first. It uses a temporary mount namespace: a mount in hostd's could
// be copied into a starting sandbox, which would keep the disk busy until the sandbox's end.
func Detached(lower []string, point string) (disk *os.File, err error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		onEndingThread(func() { disk, err = mountHere(lower, point) })
	}()
	<-ended
	return disk, err
}

// onEndingThread runs do on a thread that ends afterwards, and with it its mount namespace. It avoids the process's
// first thread, which cannot end and whose mounts /proc/self shows.
func onEndingThread(do func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		do()
		return
	}
	ended := make(chan struct{})
	go func() { // starts on another thread, since this one is locked
		defer close(ended)
		onEndingThread(do)
	}()
	<-ended
	runtime.UnlockOSThread()
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
