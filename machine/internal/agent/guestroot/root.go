// Package guestroot opens paths as the guest would resolve them, and never leaves the guest's tree: the kernel walks
// (openat2, RESOLVE_IN_ROOT), so a directory swapped for a link in between leads nowhere else.
package guestroot

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Root is a descriptor of the guest's "/". It is shared: each user holds it by Acquire until Release.
type Root struct {
	fd    int
	alone bool // mounts below are not entered
	mu    sync.Mutex
	refs  int
}

// New takes over fd; the caller holds the first reference.
func New(fd int) *Root { return &Root{fd: fd, refs: 1} }

// OpenDir makes a root of a directory of the caller's own view.
func OpenDir(path string) (*Root, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return New(fd), nil
}

// ErrInMemory: the path leads into what is mounted in a machine, and lies on no disk.
var ErrInMemory = errors.New("guestroot: in the memory of a machine")

// OpenDisk makes a root of the disk of a sleeping workspace, where something stands mounted for each mount of its machine's memory:
// whatever path leads there, links and ".." included, is ErrInMemory.
func OpenDisk(path string) (*Root, error) {
	r, err := OpenDir(path)
	if err == nil {
		r.alone = true
	}
	return r, err
}

// Alone: nothing that is mounted below the root may be entered.
func (r *Root) Alone() bool { return r.alone }

func (r *Root) Acquire() *Root {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refs++
	return r
}

func (r *Root) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refs--; r.refs == 0 {
		unix.Close(r.fd)
		r.fd = -1
	}
}

const resolve = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS

// Open resolves path below the root. Errors are bare errnos, or ErrInMemory.
func (r *Root) Open(path string, flags int, mode uint32) (int, error) {
	how := &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve}
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(mode)
	}
	if r.alone {
		how.Resolve |= unix.RESOLVE_NO_XDEV
	}
	for range 16 {
		fd, err := unix.Openat2(r.fd, path, how)
		if r.alone && errors.Is(err, unix.EXDEV) {
			return -1, ErrInMemory
		}
		// EAGAIN: the kernel saw a rename while it climbed "..", and cannot tell; a guest must not make it fail for ever.
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}

// OpenPlain resolves path below the root and follows no link on the way: ELOOP where one is.
func (r *Root) OpenPlain(path string, flags int) (int, error) {
	how := &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW), Resolve: resolve | unix.RESOLVE_NO_SYMLINKS}
	for range 16 {
		fd, err := unix.Openat2(r.fd, path, how)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}

// ReadSmall returns a regular file of bytesMax at most; a larger one, a FIFO or a device is an error.
func (r *Root) ReadSmall(path string, bytesMax int64) ([]byte, error) {
	fd, err := r.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > bytesMax {
		return nil, unix.EINVAL
	}
	return io.ReadAll(io.LimitReader(f, bytesMax))
}

// FD is the root's own descriptor, valid while the root is held.
func (r *Root) FD() int { return r.fd }
