package layers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// List continues after the directory `after`, which is possible because a layer never changes. A directory whose name
// is not UTF-8 is listed without content, because its name could not be requested.
func List(ctx context.Context, root, after string) (wire.LayerList, error) {
	return list(ctx, root, after, wire.LayerListEntries)
}

func list(ctx context.Context, root, after string, entriesMax int) (wire.LayerList, error) {
	l := lister{ctx: ctx, root: root, entriesMax: entriesMax, heldMax: heldMax, list: wire.LayerList{Directories: []wire.LayerDirectory{}}}
	var from []string
	if after != "" {
		from = append(from, "")
		if after != "/" {
			from = strings.Split(after, "/")
		}
	}
	err := l.walk("/", from)
	if errors.Is(err, errFull) {
		return l.list, nil
	}
	l.list.Done = true
	return l.list, err
}

var errFull = errors.New("the piece is full")

type lister struct {
	ctx        context.Context
	root       string
	list       wire.LayerList
	entries    int
	entriesMax int
	bytes      int64
	held       int // names of the directories on the walk's path
	heldMax    int
}

// heldMax bounds the names in memory, because a guest may have filled nested directories.
const heldMax = 2 * wire.LayerDirectoryMax

// walk lists a directory and those below it. `from` is the path to the last listed directory; empty: list everything.
func (l *lister) walk(dir string, from []string) error {
	if l.entries >= l.entriesMax || l.bytes >= wire.LayerListBytes {
		return errFull
	}
	names, err := l.names(dir)
	if err != nil {
		return err
	}
	l.held += len(names)
	defer func() { l.held -= len(names) }()
	if l.held > l.heldMax {
		return fmt.Errorf("%s and what it lies in: %w", dir, ErrTooManyEntries)
	}
	if len(from) == 0 {
		if err := l.add(dir, names); err != nil {
			return err
		}
	}
	for _, name := range names {
		below := []string(nil)
		if len(from) > 1 {
			if name < from[1] {
				continue
			}
			if name == from[1] {
				below = from[1:]
			}
		}
		full := path.Join(dir, name)
		info, err := os.Lstat(filepath.Join(l.root, full))
		if err != nil {
			return err
		}
		if !info.IsDir() || !utf8.ValidString(name) {
			continue
		}
		if err := l.walk(full, below); err != nil {
			return err
		}
	}
	return nil
}

func (l *lister) names(dir string) ([]string, error) {
	opened, err := os.Open(filepath.Join(l.root, dir))
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	names, err := opened.Readdirnames(wire.LayerDirectoryMax + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(names) > wire.LayerDirectoryMax {
		return nil, fmt.Errorf("%s: %w", dir, ErrTooManyEntries)
	}
	slices.SortFunc(names, cmp.Compare[string])
	return names, nil
}

func (l *lister) add(dir string, names []string) error {
	listed := wire.LayerDirectory{Path: dir, Entries: make([]wire.LayerEntry, 0, len(names))}
	for _, name := range names {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		entry, err := l.entry(filepath.Join(l.root, dir, name), name)
		if err != nil {
			return err
		}
		listed.Entries = append(listed.Entries, entry)
	}
	l.entries += len(names) + 1
	l.list.Directories = append(l.list.Directories, listed)
	return nil
}

func (l *lister) entry(place, name string) (entry wire.LayerEntry, err error) {
	var stat unix.Stat_t
	if err := unix.Lstat(place, &stat); err != nil {
		return entry, &os.PathError{Op: "lstat", Path: place, Err: err}
	}
	entry = wire.LayerEntry{Name: shown(name), Type: "other", Mode: stat.Mode & 0o7777, UID: stat.Uid, GID: stat.Gid}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		entry.Type, entry.SizeBytes = "file", stat.Size
		l.bytes += stat.Size
		entry.SHA256, err = digestOf(l.ctx, place)
	case unix.S_IFDIR:
		entry.Type = "directory"
		if entry.Opaque, entry.Redirect, err = overlayOf(place); err != nil {
			return entry, err
		}
	case unix.S_IFLNK:
		entry.Type = "symlink"
		target, err := os.Readlink(place)
		entry.Target = shown(target)
		return entry, err
	case unix.S_IFCHR:
		if stat.Rdev == 0 {
			entry.Type = "whiteout"
		}
	}
	return entry, err
}

func overlayOf(dir string) (opaque bool, redirect string, err error) {
	value, err := attribute(dir, "trusted.overlay.opaque")
	if err != nil {
		return false, "", err
	}
	redirect, err = attribute(dir, "trusted.overlay.redirect")
	return value == "y", redirect, err
}

func attribute(file, name string) (string, error) {
	value := make([]byte, unix.PathMax)
	size, err := unix.Lgetxattr(file, name, value)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return "", nil
	}
	if err != nil {
		return "", &os.PathError{Op: "lgetxattr " + name, Path: file, Err: err}
	}
	return string(value[:size]), nil
}

func digestOf(ctx context.Context, place string) (string, error) {
	file, err := os.OpenFile(place, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		_, err := io.CopyN(hash, file, 16<<20)
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(hash.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}

func shown(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, `\x%02x`, text[0])
		} else {
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	return b.String()
}
