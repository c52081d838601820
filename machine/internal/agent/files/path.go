// Package files implements the file calls. The kernel resolves each path below a root: the root of a running guest,
// or of a hibernated disk.
package files

import (
	"errors"
	"io/fs"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	pathBytesMax = 4096
	linksMax     = 40
)

func CheckPath(path string) error {
	switch {
	case path == "" || path[0] != '/':
		return fail.Invalid("invalid_path", "A path is absolute")
	case len(path) > pathBytesMax:
		return fail.Invalid("invalid_path", "A path has 4096 bytes at most")
	case strings.ContainsRune(path, 0) || !utf8.ValidString(path):
		return fail.Invalid("invalid_path", "A path is UTF-8 without NUL")
	}
	return nil
}

type pathTarget struct {
	dir  int
	name string
}

func (p *pathTarget) close() { unix.Close(p.dir) }

func (p *pathTarget) stat() (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(p.dir, p.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// refuseMountPoint protects the guest's mounts, which are in another mount namespace. The kernel would drop them
// with the directory, even the machine's /tmp.
func (p *pathTarget) refuseMountPoint() error {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV}
	fd, err := unix.Openat2(p.dir, p.name, how)
	if err == nil {
		return unix.Close(fd)
	}
	if errors.Is(err, unix.EXDEV) {
		return unix.EBUSY
	}
	return nil // the caller's operation reports the error
}

// split cuts off the last name only, because the kernel resolves ".." and links in dir.
func split(path string) (dir, name string) {
	trimmed := strings.TrimRight(path, "/")
	i := strings.LastIndexByte(trimmed, '/')
	if i < 0 {
		return "/", trimmed
	}
	return trimmed[:i+1], trimmed[i+1:]
}

// locate refuses the root, "." and "..", which cannot be created, moved or deleted.
func locate(r *guestroot.Root, path string) (*pathTarget, error) {
	dir, name := split(path)
	if name == "" || name == "." || name == ".." {
		return nil, fail.Invalid("invalid_path", "The path names no entry of a directory")
	}
	fd, err := r.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, Explain(err, path)
	}
	return &pathTarget{dir: fd, name: name}, nil
}

// locateTarget follows a link at the end of path, because a write through a link changes the link's target.
func locateTarget(r *guestroot.Root, path string) (*pathTarget, error) {
	for range linksMax {
		p, err := locate(r, path)
		if err != nil {
			return nil, err
		}
		var buffer [pathBytesMax]byte
		n, err := unix.Readlinkat(p.dir, p.name, buffer[:])
		if err != nil {
			return p, nil // no link, or nothing there
		}
		p.close()
		target := string(buffer[:n])
		if !strings.HasPrefix(target, "/") {
			dir, _ := split(path)
			target = dir + target
		}
		if len(target) > pathBytesMax {
			return nil, Explain(unix.ENAMETOOLONG, path)
		}
		path = target
	}
	return nil, Explain(unix.ELOOP, path)
}

func Explain(err error, path string) error {
	if errors.Is(err, guestroot.ErrInMemory) {
		return fail.Conflict("in_memory", "The path lies in the memory of the machine").With(wire.DetailInMemory, true)
	}
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return err
	}
	switch errno {
	case unix.ENOENT:
		return fail.NotFound("path_not_found", "There is no such path").With("path", path)
	case unix.ENOTDIR:
		return fail.Conflict("not_a_directory", "A part of the path is not a directory").With("path", path)
	case unix.EISDIR:
		return fail.Conflict("not_a_file", "The path is a directory").With("path", path)
	case unix.EEXIST:
		return fail.Conflict("already_exists", "The path exists").With("path", path)
	case unix.ENOTEMPTY:
		return fail.Conflict("not_empty", "The directory is not empty").With("path", path)
	case unix.ELOOP, unix.ENAMETOOLONG, unix.EINVAL:
		return fail.Invalid("invalid_path", "The path cannot be resolved").With("path", path)
	case unix.ENXIO, unix.ENODEV:
		return fail.Conflict("not_a_file", "The path is not a regular file").With("path", path)
	case unix.EBUSY, unix.ETXTBSY:
		return fail.Conflict("path_busy", "The path is in use by the system").With("path", path)
	case unix.EXDEV:
		return fail.Conflict("different_filesystem", "The paths lie on different file systems").With("path", path)
	case unix.EROFS, unix.EACCES, unix.EPERM:
		return fail.Conflict("not_permitted", "The path cannot be changed or read").With("path", path)
	}
	return err
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
