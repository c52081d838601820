package treefiles

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// Changed is a disk to compare. No process may write to it any more.
type Changed struct {
	Upper *os.File // upper directory of the guest's root overlay
	// Merged returns the overlay's merged root, for moved directories, which are partly in the lower layers.
	Merged     func() (*os.File, error)
	BytesMax   int64
	EntriesMax int64
}

var home = []string{"home", "user"}

// The mode of a root directory that the guest removed.
const ofGuests = 0o755

// Names are read in parts, because a guest chooses the size and depth of directories.
const namesAtOnce = 64

// refusedError means that the guest's files exceed what a tree can represent.
type refusedError struct{ why, path string }

func (e *refusedError) Error() string { return e.why }

// WriteChanges writes the changes as entries. Its time depends on the number of changes, not on the size of the tree.
func WriteChanges(to io.Writer, changed Changed) error {
	out := bufio.NewWriterSize(to, StreamBytes)
	w := &walking{Changed: changed, out: out}
	err := w.fromTop()
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		err = writeEntry(out, wire.TreeEntry{Type: wire.TreeRefused, Path: refused.path, Why: refused.why})
	case err == nil:
		err = writeEntry(out, wire.TreeEntry{Type: wire.TreeEnd})
	}
	return errors.Join(err, out.Flush())
}

type walking struct {
	Changed
	out     *bufio.Writer
	bytes   int64
	entries int64
	merged  bool // inside a moved directory, where all files are written as the guest saw them
}

// fromTop handles home directories that the guest moved or removed.
func (w *walking) fromTop() error {
	at, opaque := w.Upper, false
	for _, name := range home {
		next, kind, err := openUpper(at, name)
		if at != w.Upper {
			at.Close()
		}
		switch {
		case errors.Is(err, unix.ENOENT) && !opaque:
			return nil
		case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR):
			return w.tell(wire.TreeEntry{Type: wire.TreeDirectory, Opaque: true, Mode: ofGuests, ModifiedMS: time.Now().UnixMilli()})
		case err != nil:
			return err
		case kind == moved:
			next.Close()
			return w.wholeRoot()
		}
		at, opaque = next, opaque || kind == opaqueDir
	}
	defer at.Close()
	return w.directory(at, "", opaque)
}

func (w *walking) wholeRoot() error {
	merged, err := w.Merged()
	if err != nil {
		return err
	}
	defer merged.Close()
	dir, err := openBeneathMount(merged, path.Join(home...))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return w.tell(wire.TreeEntry{Type: wire.TreeDirectory, Opaque: true, Mode: ofGuests, ModifiedMS: time.Now().UnixMilli()})
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	w.merged = true
	return w.directory(dir, "", true)
}

func (w *walking) directory(dir *os.File, at string, opaque bool) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &stat); err != nil {
		return err
	}
	if err := w.tell(entryOf(wire.TreeDirectory, at, &stat, opaque)); err != nil {
		return err
	}
	for {
		names, err := dir.Readdirnames(namesAtOnce)
		for _, name := range names {
			if err := w.name(dir, name, at); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (w *walking) name(dir *os.File, name, below string) error {
	at := path.Join(below, name)
	var stat unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("%q: %w", at, err)
	}
	kind := stat.Mode & unix.S_IFMT
	removed := kind != unix.S_IFREG && kind != unix.S_IFDIR && kind != unix.S_IFLNK // a whiteout, or a type that trees do not have
	if !utf8.ValidString(name) {
		if removed {
			return nil // ignored: no tree contains such a name
		}
		return &refusedError{wire.TreeNameNotUTF8, strings.ToValidUTF8(at, "�")}
	}
	if len(at)+len("/home/user/") >= unix.PathMax {
		return &refusedError{wire.TreePathTooLong, at[:255]}
	}
	switch {
	case removed:
		return w.tell(wire.TreeEntry{Type: wire.TreeRemove, Path: at})
	case kind == unix.S_IFDIR:
		return w.subdirectory(dir, name, at)
	case kind == unix.S_IFLNK:
		return w.symlink(dir, name, at, &stat)
	default:
		return w.file(dir, name, at)
	}
}

func (w *walking) subdirectory(parent *os.File, name, at string) error {
	if w.merged {
		dir, err := openDir(parent, name)
		if err != nil {
			return err
		}
		defer dir.Close()
		return w.directory(dir, at, true)
	}
	dir, kind, err := openUpper(parent, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	if kind != moved {
		return w.directory(dir, at, kind == opaqueDir)
	}
	merged, err := w.Merged()
	if err != nil {
		return err
	}
	defer merged.Close()
	whole, err := openBeneathMount(merged, path.Join(path.Join(home...), at))
	if err != nil {
		return err
	}
	defer whole.Close()
	w.merged = true
	defer func() { w.merged = false }()
	return w.directory(whole, at, true)
}

func (w *walking) symlink(dir *os.File, name, at string, stat *unix.Stat_t) error {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(dir.Fd()), name, target)
	if err != nil {
		return err
	}
	if !utf8.Valid(target[:n]) {
		return &refusedError{wire.TreeNameNotUTF8, at}
	}
	entry := entryOf(wire.TreeSymlink, at, stat, false)
	entry.Target = string(target[:n])
	return w.tell(entry)
}

// file writes a file's content. Holes become zeros.
func (w *walking) file(dir *os.File, name, at string) error {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%q: %w", at, err)
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Size > w.BytesMax-w.bytes {
		return &refusedError{wire.TreeTooLarge, at}
	}
	w.bytes += stat.Size
	entry := entryOf(wire.TreeFile, at, &stat, false)
	entry.Size = stat.Size
	if err := w.tell(entry); err != nil {
		return err
	}
	if _, err := io.CopyN(w.out, file, stat.Size); err != nil {
		return fmt.Errorf("%q: %w", at, err)
	}
	return nil
}

func (w *walking) tell(entry wire.TreeEntry) error {
	w.entries++
	if w.entries > w.EntriesMax {
		return &refusedError{wire.TreeTooManyEntries, entry.Path}
	}
	return writeEntry(w.out, entry)
}

func entryOf(kind, at string, stat *unix.Stat_t, opaque bool) wire.TreeEntry {
	return wire.TreeEntry{Type: kind, Path: at, Mode: stat.Mode & 0o7777, ModifiedMS: milliseconds(stat.Mtim), Opaque: opaque}
}

// milliseconds limits the time, because the guest may have set any.
func milliseconds(at unix.Timespec) int64 {
	const secondsMax = math.MaxInt32 * 100
	return max(min(at.Sec, secondsMax), 0)*1000 + at.Nsec/int64(time.Millisecond)
}

const (
	mergedDir = iota
	opaqueDir // hides the lower directories of the same name
	moved     // shows a lower directory with another name
)

// openUpper opens a directory and reads its overlay marks. For a whiteout it returns ENOTDIR.
func openUpper(parent *os.File, name string) (*os.File, int, error) {
	dir, err := openDir(parent, name)
	if err != nil {
		return nil, 0, err
	}
	var value [1]byte
	n, err := unix.Fgetxattr(int(dir.Fd()), "trusted.overlay.opaque", value[:])
	if err == nil && n == 1 && value[0] == 'y' {
		return dir, opaqueDir, nil
	}
	if _, err := unix.Fgetxattr(int(dir.Fd()), "trusted.overlay.redirect", nil); err == nil {
		return dir, moved, nil
	}
	return dir, mergedDir, nil
}

func openDir(parent *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(parent.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) {
		err = unix.ENOTDIR
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func openBeneathMount(mount *os.File, dir string) (*os.File, error) {
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(int(mount.Fd()), dir, how)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), dir), nil
}
