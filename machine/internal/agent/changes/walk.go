package changes

import (
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/files"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// Mounts at these paths hide the disk below them, so the walk skips them.
var mountPoints = []string{"/dev", "/proc", "/sys", "/tmp", "/volumes"}

type walk struct {
	req      Request
	from     *position
	gone     <-chan struct{}
	deadline time.Time
	budget   int64
	upper    *guestroot.Root
	dirents  []byte
	bare     int // entries without facts
	take     func(wire.Change) error

	last     string // the next page begins after this path
	countDir string // cursorDir of last
	count    uint32 // entries listed below countDir
}

func openRoot(path string) (*os.File, error) {
	fd, err := unix.Open(path, directoryFlags, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// upperNames closes the directory at once. A guest can remove the directory without the engine noticing, and a
// checkpoint with a removed directory open cannot be restored.
func (w *walk) upperNames(path string) map[string]bool {
	fd, err := w.upper.Open("/"+path, directoryFlags, 0)
	if err != nil {
		return nil
	}
	dir := os.NewFile(uintptr(fd), "upper")
	defer dir.Close()
	list := w.names(dir)
	set := make(map[string]bool, len(list))
	for _, it := range list {
		set[it.Name] = true
	}
	return set
}

func (w *walk) compared(merged, template *os.File, path string, depth int) error {
	inUpper := w.upperNames(path)
	var list []string
	for _, it := range append(w.names(merged), w.names(template)...) {
		list = append(list, it.Name)
	}
	slices.Sort(list)
	list = slices.Compact(list)
	now, before := w.sides(merged, path), w.sides(template, path)
	for i, name := range list {
		child := path + "/" + name
		go_on, err := w.visit(child, name)
		if err != nil {
			return err
		}
		if !go_on {
			continue
		}
		if err := w.compareName(now.at(list, i), before.at(list, i), child, inUpper[name], depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) compareName(now, before *side, path string, inUpper bool, depth int) error {
	switch {
	case now == nil && before == nil:
		return nil // vanished since it was listed
	case now != nil && w.isOwn(now, path):
		return nil
	case now == nil:
		return w.emit(deleted, before, path, false)
	case before == nil:
		return w.emitTree(added, now, path, depth)
	case now.kind() != before.kind():
		return w.emitTree(replaced, now, path, depth)
	case !inUpper && sameStat(now, before):
		return nil
	}
	if kind := w.compareEntries(now, before); kind != "" {
		if err := w.emit(kind, now, path, true); err != nil {
			return err
		}
	}
	if now.kind() != unix.S_IFDIR || depth >= depthMax {
		return nil
	}
	merged, template := now.open(), before.open()
	if merged != nil {
		defer merged.Close()
	}
	if template != nil {
		defer template.Close()
	}
	if merged == nil || template == nil {
		return nil
	}
	return w.compared(merged, template, path, depth+1)
}

func (w *walk) emitTree(kind string, now *side, path string, depth int) error {
	if err := w.emit(kind, now, path, true); err != nil {
		return err
	}
	if now.kind() != unix.S_IFDIR || depth >= depthMax {
		return nil
	}
	dir := now.open()
	if dir == nil {
		return nil
	}
	defer dir.Close()
	return w.below(dir, path, depth)
}

func (w *walk) below(dir *os.File, path string, depth int) error {
	items := w.names(dir)
	var unknown []string
	for _, it := range items {
		if w.sideFromDirent(dir, it, path+"/"+it.Name) == nil {
			unknown = append(unknown, it.Name)
		}
	}
	sides, n := w.sides(dir, path), -1
	for _, it := range items {
		child := path + "/" + it.Name
		s := w.sideFromDirent(dir, it, child)
		if s == nil {
			n++
		}
		go_on, err := w.visit(child, it.Name)
		if err != nil {
			return err
		}
		if !go_on {
			continue
		}
		if s == nil {
			s = sides.at(unknown, n)
		}
		if s == nil {
			continue // vanished
		}
		if err := w.emitTree(added, s, child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// concerns reports whether path or an entry below it may be on this page.
func (w *walk) concerns(path, name string) bool {
	return !slices.Contains(mountPoints, path) && !files.Hidden(name) && related(path, w.req.PathPrefix) && w.from.reaches(path)
}

func (w *walk) visit(path, name string) (bool, error) {
	if !w.concerns(path, name) {
		return false, nil
	}
	select {
	case <-w.gone:
		return false, errPageFull
	default:
	}
	// The deadline ends a page only after progress, or paging would never end.
	if w.last != "" && time.Now().After(w.deadline) {
		return false, errPageFull
	}
	if len(path) <= cursorPathMax && w.from.before(path) {
		w.last = path
	}
	return true, nil
}

func related(path, prefix string) bool {
	return strings.HasPrefix(path, prefix) || strings.HasPrefix(prefix, path+"/")
}

func (w *walk) emit(kind string, s *side, path string, current bool) error {
	if !strings.HasPrefix(path, w.req.PathPrefix) || !w.from.passed(path) {
		return nil
	}
	w.note(path)
	c := wire.Change{Path: shown(path), Kind: kind, Type: files.TypeOf(s.Mode)}
	if s.bare {
		c.OnDisk, c.Mode, w.bare = true, files.Octal(0), w.bare+1
		return w.take(c)
	}
	c.Size, c.Mode = max(s.Size, 0), files.Octal(s.Mode)
	if w.req.Hash && current && s.kind() == unix.S_IFREG {
		c.SHA256 = s.digest()
	}
	return w.take(c)
}

func (w *walk) note(path string) {
	dir := cursorDir(path)
	if dir != w.countDir {
		w.countDir, w.count = dir, w.from.entriesOf(dir)
	}
	w.last = path
	if dir != path {
		w.count++
	}
}

func shown(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		parts[i] = files.EscapeName(part)
	}
	return strings.Join(parts, "/")
}
