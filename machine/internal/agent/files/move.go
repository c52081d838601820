package files

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// Move refuses an existing target atomically, unless req.Overwrite is set. To another file system, Move copies a
// file or link, as mv does, and refuses a directory: its copy could not appear at once.
func Move(r *guestroot.Root, req wire.MoveRequest, gone <-chan struct{}) (wire.FileInfo, error) {
	for _, path := range []string{req.From, req.To} {
		if err := CheckPath(path); err != nil {
			return wire.FileInfo{}, err
		}
	}
	from, err := locate(r, req.From)
	if err != nil {
		return wire.FileInfo{}, err
	}
	defer from.close()
	st, err := from.stat()
	if err == nil {
		err = from.refuseMountPoint()
	}
	if err != nil {
		return wire.FileInfo{}, Explain(err, req.From)
	}
	to, err := locate(r, req.To)
	if err != nil {
		return wire.FileInfo{}, err
	}
	defer to.close()
	if err = to.refuseMountPoint(); err != nil && req.Overwrite {
		return wire.FileInfo{}, Explain(err, req.To)
	}
	err = rename(from, to, req.Overwrite)
	if errors.Is(err, unix.EXDEV) && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = (&crossDeviceMove{from: from, to: to, old: st, gone: gone}).run(req.Overwrite)
	}
	if err != nil {
		return wire.FileInfo{}, Explain(err, req.To)
	}
	// The move is durable before the reply. Errors are ignored: some file systems cannot fsync directories, and the
	// move has happened.
	_ = errors.Join(unix.Fsync(to.dir), unix.Fsync(from.dir))
	return Stat(r, req.To, false)
}

func rename(from, to *pathTarget, overwrite bool) error {
	if overwrite {
		return unix.Renameat(from.dir, from.name, to.dir, to.name)
	}
	err := unix.Renameat2(from.dir, from.name, to.dir, to.name, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	// Some shared file systems lack RENAME_NOREPLACE. Another writer may create the target after this check; the rename
	// then replaces it.
	if _, missing := to.stat(); missing == nil {
		return unix.EEXIST
	}
	return unix.Renameat(from.dir, from.name, to.dir, to.name)
}

// crossDeviceMove copies to a hidden file and renames it, so the target appears whole. The source is removed after
// the copy is synced.
type crossDeviceMove struct {
	from, to *pathTarget
	old      unix.Stat_t
	gone     <-chan struct{}
}

func (c *crossDeviceMove) run(overwrite bool) error {
	if err := c.refused(overwrite); err != nil {
		return err
	}
	name, done, err := hiddenIn(c.to.dir)
	if err != nil {
		return err
	}
	defer done()
	if err = c.copy(name); err == nil {
		err = rename(&pathTarget{dir: c.to.dir, name: name}, c.to, overwrite)
	}
	if err != nil {
		if undone := unix.Unlinkat(c.to.dir, name, 0); !isNotExist(undone) {
			err = errors.Join(err, undone)
		}
		return err
	}
	// A power cut after the unlink must not lose both names. Some file systems cannot fsync directories.
	_ = unix.Fsync(c.to.dir)
	return unix.Unlinkat(c.from.dir, c.from.name, 0)
}

// refused checks the target before the copy is made. The rename checks the target again.
func (c *crossDeviceMove) refused(overwrite bool) error {
	st, err := c.to.stat()
	switch {
	case isNotExist(err):
		return nil
	case err != nil:
		return err
	case !overwrite:
		return unix.EEXIST
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return unix.EISDIR
	}
	return nil
}

func (c *crossDeviceMove) copy(name string) error {
	var err error
	switch c.old.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		err = c.copyFile(name)
	case unix.S_IFLNK:
		err = c.copyLink(name)
	default:
		err = unix.EXDEV
	}
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(c.to.dir, name, []unix.Timespec{c.old.Atim, c.old.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}

func (c *crossDeviceMove) copyLink(name string) error {
	var buffer [pathBytesMax]byte
	n, err := unix.Readlinkat(c.from.dir, c.from.name, buffer[:])
	if err != nil {
		return err
	}
	if err := unix.Symlinkat(string(buffer[:n]), c.to.dir, name); err != nil {
		return err
	}
	return unix.Fchownat(c.to.dir, name, int(c.old.Uid), int(c.old.Gid), unix.AT_SYMLINK_NOFOLLOW)
}

func (c *crossDeviceMove) copyFile(name string) error {
	fd, err := unix.Openat(c.from.dir, c.from.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	source := os.NewFile(uintptr(fd), c.from.name)
	defer source.Close()
	if err := unix.Fstat(fd, &c.old); err != nil {
		return err
	}
	if c.old.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.EXDEV // replaced since the stat
	}
	fd, err = unix.Openat(c.to.dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	target := os.NewFile(uintptr(fd), name)
	defer target.Close()
	if _, err := io.CopyBuffer(struct{ io.Writer }{target}, cancelableReader{source, c.gone}, make([]byte, 256<<10)); err != nil {
		return err
	}
	if err := unix.Fchown(fd, int(c.old.Uid), int(c.old.Gid)); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, c.old.Mode&0o7777); err != nil {
		return err
	}
	return target.Sync()
}

type cancelableReader struct {
	io.Reader
	gone <-chan struct{}
}

func (w cancelableReader) Read(p []byte) (int, error) {
	select {
	case <-w.gone:
		return 0, fail.Conflict("operation_interrupted", "The caller has gone")
	default:
		return w.Reader.Read(p)
	}
}
