package treefiles

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

type Owner struct{ UID, GID int }

// Apply reads entries and changes the tree. After an error the tree is partly changed.
func Apply(root *os.File, owner Owner, from *bufio.Reader) error {
	a := &applying{root: root, owner: owner}
	defer a.closeParent()
	for {
		var entry wire.TreeEntry
		if err := ReadLine(from, &entry); err != nil {
			return err
		}
		if entry.Type == wire.TreeEnd {
			return a.finishDirectories()
		}
		if err := a.apply(entry, from); err != nil {
			return fmt.Errorf("%s %q: %w", entry.Type, entry.Path, err)
		}
	}
}

type applying struct {
	root       *os.File
	owner      Owner
	parentPath string
	parent     *os.File
	// The directories' times are set at the end, because new entries change them.
	directories []wire.TreeEntry
}

func (a *applying) apply(entry wire.TreeEntry, from io.Reader) error {
	if entry.Path == "" {
		if entry.Type != wire.TreeDirectory {
			return unix.EINVAL
		}
		a.directories = append(a.directories, entry)
		return nil
	}
	if !isPath(entry.Path) {
		return unix.EINVAL
	}
	parent, err := a.openParent(path.Dir(entry.Path))
	if err != nil {
		return err
	}
	name := path.Base(entry.Path)
	switch entry.Type {
	case wire.TreeRemove:
		return removeAt(parent, name)
	case wire.TreeDirectory:
		return a.directory(parent, name, entry)
	case wire.TreeSymlink:
		return a.symlink(parent, name, entry)
	case wire.TreeFile:
		return a.file(parent, name, entry, from)
	}
	return unix.EINVAL
}

func isPath(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." || len(name) > unix.NAME_MAX || strings.ContainsRune(name, 0) {
			return false
		}
	}
	return len(path) < unix.PathMax
}

// openParent keeps the last directory open, because entries of one directory are adjacent.
func (a *applying) openParent(dir string) (*os.File, error) {
	if a.parent != nil && a.parentPath == dir {
		return a.parent, nil
	}
	a.closeParent()
	file, err := openBeneath(a.root, dir)
	if err != nil {
		return nil, err
	}
	a.parent, a.parentPath = file, dir
	return file, nil
}

func (a *applying) closeParent() {
	if a.parent != nil {
		a.parent.Close()
		a.parent = nil
	}
}

func openBeneath(root *os.File, dir string) (*os.File, error) {
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV}
	fd, err := unix.Openat2(int(root.Fd()), dir, how)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), dir), nil
}

func (a *applying) directory(parent *os.File, name string, entry wire.TreeEntry) error {
	var stat unix.Stat_t
	err := unix.Fstatat(int(parent.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && (entry.Opaque || stat.Mode&unix.S_IFMT != unix.S_IFDIR) {
		err = removeAt(parent, name)
		if err == nil {
			err = unix.ENOENT
		}
	}
	if err == unix.ENOENT {
		if err = unix.Mkdirat(int(parent.Fd()), name, 0o700); err == nil {
			err = unix.Fchownat(int(parent.Fd()), name, a.owner.UID, a.owner.GID, unix.AT_SYMLINK_NOFOLLOW)
		}
	}
	a.directories = append(a.directories, entry)
	return err
}

func (a *applying) symlink(parent *os.File, name string, entry wire.TreeEntry) error {
	if err := removeAt(parent, name); err != nil {
		return err
	}
	if err := unix.Symlinkat(entry.Target, int(parent.Fd()), name); err != nil {
		return err
	}
	if err := unix.Fchownat(int(parent.Fd()), name, a.owner.UID, a.owner.GID, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	return setTimes(parent, name, entry.ModifiedMS)
}

func (a *applying) file(parent *os.File, name string, entry wire.TreeEntry, from io.Reader) error {
	if err := removeAt(parent, name); err != nil {
		return err
	}
	fd, err := unix.Openat(int(parent.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	if _, err := io.CopyN(file, from, entry.Size); err != nil {
		return err
	}
	if err := file.Chown(a.owner.UID, a.owner.GID); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, entry.Mode&0o7777); err != nil {
		return err
	}
	return setTimes(parent, name, entry.ModifiedMS)
}

func (a *applying) finishDirectories() error {
	for i := len(a.directories) - 1; i >= 0; i-- {
		entry := a.directories[i]
		dir, err := openBeneath(a.root, path.Join(".", entry.Path))
		if err == unix.ENOENT || err == unix.ENOTDIR {
			continue // it was made and removed in one stream
		}
		if err != nil {
			return fmt.Errorf("directory %q: %w", entry.Path, err)
		}
		err = unix.Fchmod(int(dir.Fd()), entry.Mode&0o7777)
		if err == nil {
			err = setTimes(dir, ".", entry.ModifiedMS)
		}
		dir.Close()
		if err != nil {
			return fmt.Errorf("directory %q: %w", entry.Path, err)
		}
	}
	return nil
}

func setTimes(parent *os.File, name string, modifiedMS int64) error {
	at := unix.NsecToTimespec(modifiedMS * int64(time.Millisecond))
	return unix.UtimesNanoAt(int(parent.Fd()), name, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
}

func removeAt(parent *os.File, name string) error {
	err := unix.Unlinkat(int(parent.Fd()), name, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	if err != unix.EISDIR && err != unix.EPERM {
		return err
	}
	fd, err := unix.Openat(int(parent.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, each := range names {
		if err := removeAt(dir, each); err != nil {
			return err
		}
	}
	return unix.Unlinkat(int(parent.Fd()), name, unix.AT_REMOVEDIR)
}
