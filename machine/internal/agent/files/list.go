package files

import (
	"errors"
	"io"
	"os"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/bookmark"
	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	listLimitDefault = 1000
	listLimitMax     = 10000
	// Each level has an open directory, so the depth is limited.
	listDepthMax = 1024
	// Limits the bytes of names, paths and link targets in a list.
	listBytesMax = 8 << 20
)

// ListOptions selects the entries of a list. A recursive list follows no links and enters no mounts.
type ListOptions struct {
	Limit     int
	Cursor    string
	Recursive bool
	Gone      <-chan struct{}
}

// List returns the entries of a directory, sorted by name.
func List(r *guestroot.Root, path string, o ListOptions) (wire.FileList, error) {
	l := &lister{o: o, list: wire.FileList{Entries: []wire.FileInfo{}}}
	if err := CheckPath(path); err != nil {
		return l.list, err
	}
	if l.o.Limit == 0 {
		l.o.Limit = listLimitDefault
	}
	if l.o.Limit < 1 || l.o.Limit > listLimitMax {
		return l.list, fail.BadRequest("invalid_limit", "limit is 1 to 10000")
	}
	at, err := bookmark.Parse(o.Cursor)
	if err != nil {
		return l.list, err
	}
	fd, err := r.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return l.list, Explain(err, path)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return l.list, Explain(err, path)
	}
	l.device = uint64(st.Dev)
	err = l.directory(fd, strings.TrimRight(path, "/")+"/", "", at.Steps(), 1)
	if errors.Is(err, errFull) {
		l.list.Truncated, l.list.NextCursor = true, bookmark.Position{Path: l.last}.Cursor()
		err = nil
	}
	return l.list, Explain(err, path)
}

var errFull = errors.New("files: the list is full")

type lister struct {
	o      ListOptions
	list   wire.FileList
	device uint64
	bytes  int
	last   string // path of the last entry, relative to the start
}

// directory closes fd. shown and relative end with a slash or are empty, and steps lead to the previous page's last
// entry.
func (l *lister) directory(fd int, shown, relative string, steps []string, depth int) error {
	dir := os.NewFile(uintptr(fd), "directory")
	defer dir.Close()
	names, err := dir.Readdirnames(directoryNamesMax)
	if err != nil && err != io.EOF && depth == 1 {
		return err
	}
	sort.Strings(names)
	for _, name := range names {
		passed, on, rest := bookmark.Next(steps, name)
		if passed || Hidden(name) {
			continue
		}
		if err := l.entry(fd, name, shown, relative, on, rest, depth); err != nil {
			return err
		}
	}
	l.list.Truncated = l.list.Truncated || len(names) == directoryNamesMax
	return nil
}

// entry lists a name and, if Recursive, the entries below. on means that an earlier page listed the name.
func (l *lister) entry(dir int, name, shown, relative string, on bool, rest []string, depth int) error {
	var st unix.Stat_t
	info, ok := entryOf(dir, shown, name, &st)
	if !ok {
		return nil
	}
	if !on {
		l.bytes += len(info.Path) + len(info.Name) + len(info.Target)
		if len(l.list.Entries) == l.o.Limit || l.bytes > listBytesMax {
			return errFull
		}
		l.list.Entries, l.last = append(l.list.Entries, info), relative+name
	}
	if !l.o.Recursive || info.Type != "directory" || uint64(st.Dev) != l.device || depth >= listDepthMax {
		return nil
	}
	if isOver(l.o.Gone) {
		return fail.Conflict("operation_interrupted", "The caller has gone")
	}
	flags := unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_XDEV})
	if err != nil {
		return nil // vanished, or a mount
	}
	return l.directory(fd, shown+EscapeName(name)+"/", relative+name+"/", rest, depth+1)
}

func isOver(gone <-chan struct{}) bool {
	select {
	case <-gone:
		return true
	default:
		return false
	}
}
