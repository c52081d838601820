// Package guestroot opens paths as the guest would. The kernel resolves them (openat2, RESOLVE_IN_ROOT), so a guest
// that replaces a directory by a link cannot escape from the root.
package guestroot

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Root is a shared descriptor of the guest's "/".
type Root struct {
	fd    int
	alone bool // mounts below are not entered
	mu    sync.Mutex
	refs  int
}

// New becomes the owner of fd. The caller holds the first reference.
func New(fd int) *Root { return &Root{fd: fd, refs: 1} }

// OpenDir opens a path in the agent's own view of the file system.
func OpenDir(path string) (*Root, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return New(fd), nil
}

// ErrInMemory means that the path is in a machine's memory and not on the disk.
var ErrInMemory = errors.New("guestroot: in the memory of a machine")

// OpenDisk opens a hibernated workspace's disk. Placeholder mounts cover the directories that a machine has in
// memory. A path into one, even by links or "..", returns ErrInMemory.
func OpenDisk(path string) (*Root, error) {
	r, err := OpenDir(path)
	if err == nil {
		r.alone = true
	}
	return r, err
}

// Alone reports that mounts below the root must not be entered.
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

// Open returns a plain errno or ErrInMemory as its error.
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
		// A rename that races with ".." returns EAGAIN: without retries a guest could make every open fail.
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}

// OpenPlain follows no links: a path with a link returns ELOOP.
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

// ReadSmall fails for a file larger than bytesMax, and for every other type than a regular file.
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

// FD is valid until Release.
func (r *Root) FD() int { return r.fd }
