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
func Detached(lower []string, point string) (disk *os.File, err error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		onEndingThread(func() { disk, err = mountHere(lower, point) })
	}()
	<-ended
	return disk, err
}

// onEndingThread takes the calling goroutine's thread for do and for nothing after it: the thread ends with the goroutine, and its
// namespace with the thread. Never the process's first: that one cannot end but would be kept as it is, and what /proc/self shows of
// mounts is what the first thread sees.
func onEndingThread(do func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		do()
		return
	}
	ended := make(chan struct{})
	go func() { // elsewhere, since this thread is taken
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
