package changes

import (
	"os"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/dirents"
)

// side is one name in one view.
type side struct {
	dir  *os.File
	name string
	bare bool // only its type is known
	unix.Stat_t
}

// open opens a directory of a view; nil when it has gone meanwhile.
func (s *side) open() *os.File {
	fd, err := unix.Openat(int(s.dir.Fd()), s.name, directoryFlags, 0)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), s.name)
}

func (s *side) kind() uint32 { return s.Mode & unix.S_IFMT }

// look returns nil for what is not there.
func look(dir *os.File, name string) *side {
	s := &side{dir: dir, name: name}
	if unix.Fstatat(int(dir.Fd()), name, &s.Stat_t, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil
	}
	return s
}

const (
	// aheadNames of a directory are looked at by lookers beside each other, before it is their turn: each call of a guest waits for its
	// kernel, and that for the disk.
	aheadNames = 32
	lookers    = 4
)

// sides looks at the names of one directory in their order.
type sides struct {
	w     *walk
	dir   *os.File
	path  string
	begun int     // names before it were looked at
	ahead []*side // those before begun, the last ones
}

func (w *walk) sides(dir *os.File, path string) *sides { return &sides{w: w, dir: dir, path: path} }

// at is the side of a name that concerns this page, in a list that is asked from its first to its last; nil: it is not there.
func (s *sides) at(list []string, i int) *side {
	if i >= s.begun {
		end := min(i+aheadNames, len(list))
		s.ahead, s.begun = s.look(list[i:end]), end
	}
	return s.ahead[len(s.ahead)-(s.begun-i)]
}

func (s *sides) look(list []string) []*side {
	found := make([]*side, len(list))
	var all sync.WaitGroup
	for first := range min(lookers, len(list)) {
		all.Go(func() {
			for i := first; i < len(list); i += lookers {
				if s.w.concerns(s.path+"/"+list[i], list[i]) {
					found[i] = look(s.dir, list[i])
				}
			}
		})
	}
	all.Wait()
	return found
}

// names of a directory, sorted; what cannot be read is empty.
func (w *walk) names(dir *os.File) []dirents.Item {
	if w.dirents == nil {
		w.dirents = make([]byte, dirents.BufferBytes)
	}
	return dirents.Read(int(dir.Fd()), w.dirents, namesMax)
}

// named is what is known of a new name from its directory alone; nil where it has to be looked at. For a summary the type is enough. For a page
// it is enough of regular files and links, whose facts the disk has. All else has facts that only the guest knows, and a path that is not
// UTF-8 cannot be asked for.
func (w *walk) named(dir *os.File, it dirents.Item, path string) *side {
	s := &side{dir: dir, name: it.Name, bare: true}
	switch it.Kind {
	case unix.DT_UNKNOWN:
		return nil
	case unix.DT_DIR:
		s.Mode = unix.S_IFDIR
	case unix.DT_LNK:
		s.Mode = unix.S_IFLNK
	default:
		s.Mode = unix.S_IFREG
	}
	if w.req.Summary {
		return s
	}
	if w.req.OnDiskFrom == 0 || it.Kind != unix.DT_REG && it.Kind != unix.DT_LNK || !utf8.ValidString(path) {
		return nil
	}
	return s
}
