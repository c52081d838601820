package files

import (
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	componentsMax = 1024
	// Each level of a recursion has an open descriptor, so the depth is limited.
	depthMax = 2048
	// A guest may refill a directory as fast as it is emptied, so removeTree gives up after this many reads.
	roundsMax = 100000
)

// Mkdir accepts an existing directory only if req.Parents is set.
func Mkdir(r *guestroot.Root, req wire.MkdirRequest, owner Owner) (wire.FileInfo, error) {
	if err := CheckPath(req.Path); err != nil {
		return wire.FileInfo{}, err
	}
	mode, err := parseMode(req.Mode)
	if err != nil {
		return wire.FileInfo{}, err
	}
	if mode < 0 {
		mode = 0o755
	}
	if strings.Trim(req.Path, "/") == "" && !req.Parents {
		return wire.FileInfo{}, Explain(unix.EEXIST, req.Path)
	}
	if req.Parents {
		dir, _ := split(req.Path)
		if err := makeParents(r, dir, owner); err != nil {
			return wire.FileInfo{}, err
		}
	}
	if err := mkdirOne(r, req.Path, uint32(mode), owner); err != nil {
		if !req.Parents || !isDirectory(r, req.Path) {
			return wire.FileInfo{}, err
		}
	}
	return Stat(r, req.Path, false)
}

func mkdirOne(r *guestroot.Root, path string, mode uint32, owner Owner) error {
	at, err := locate(r, path)
	if err != nil {
		return err
	}
	defer at.close()
	if err := unix.Mkdirat(at.dir, at.name, 0o700); err != nil {
		return Explain(err, path)
	}
	fd, err := unix.Openat(at.dir, at.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return Explain(err, path)
	}
	defer unix.Close(fd)
	err = errors.Join(unix.Fchown(fd, owner.UID, owner.GID), unix.Fchmod(fd, mode), unix.Fsync(at.dir))
	return Explain(err, path)
}

func isDirectory(r *guestroot.Root, path string) bool {
	fd, err := r.Open(path, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}

func makeParents(r *guestroot.Root, dir string, owner Owner) error {
	if isDirectory(r, dir) {
		return nil
	}
	parts := strings.Split(strings.Trim(dir, "/"), "/")
	if len(parts) > componentsMax {
		return Explain(unix.ENAMETOOLONG, dir)
	}
	path := ""
	for _, part := range parts {
		path += "/" + part
		if part == "" || part == "." || part == ".." || isDirectory(r, path) {
			continue
		}
		err := mkdirOne(r, path, 0o755, owner)
		if err != nil && !isDirectory(r, path) {
			var refusal *fail.Error
			if errors.As(err, &refusal) && refusal.Reason == "already_exists" {
				return Explain(unix.ENOTDIR, path)
			}
			return err
		}
	}
	return nil
}

// Delete removes a file, a link or a directory.
func Delete(r *guestroot.Root, path string, recursive bool) error {
	if err := CheckPath(path); err != nil {
		return err
	}
	at, err := locate(r, path)
	if err != nil {
		return err
	}
	defer at.close()
	st, err := at.stat()
	if err == nil {
		err = at.refuseMountPoint()
	}
	if err != nil {
		return Explain(err, path)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = unix.Unlinkat(at.dir, at.name, 0)
	} else if err = unix.Unlinkat(at.dir, at.name, unix.AT_REMOVEDIR); errors.Is(err, unix.ENOTEMPTY) && recursive {
		err = removeTree(at.dir, at.name, depthMax)
	}
	if err != nil {
		return Explain(err, path)
	}
	_ = unix.Fsync(at.dir) // the error is ignored, as in Move
	return nil
}

// removeTree opens each level relative to its parent's descriptor. A guest that replaces a directory by a link
// cannot redirect the deletion.
func removeTree(dir int, name string, depth int) error {
	if depth == 0 {
		return unix.ENAMETOOLONG
	}
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV}
	fd, err := unix.Openat2(dir, name, how)
	if errors.Is(err, unix.EXDEV) {
		return unix.EBUSY // a mount point, which refuseMountPoint also refuses
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	for range roundsMax {
		names, err := f.Readdirnames(512)
		if err != nil && err != io.EOF {
			return err
		}
		if len(names) == 0 {
			return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		}
		for _, child := range names {
			if err := removeEntry(fd, child, depth); err != nil && !isNotExist(err) {
				return err
			}
		}
		// Deletions shift the read position, so each round reads from the start.
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	return unix.ENOTEMPTY
}

func removeEntry(dir int, name string, depth int) error {
	err := unix.Unlinkat(dir, name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		return removeTree(dir, name, depth-1)
	}
	return err
}
