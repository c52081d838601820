package changes

import (
	"os"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/dirents"
)

type side struct {
	dir  *os.File
	name string
	bare bool // only the type is set
	unix.Stat_t
}

func (s *side) open() *os.File {
	fd, err := unix.Openat(int(s.dir.Fd()), s.name, directoryFlags, 0)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), s.name)
}

func (s *side) kind() uint32 { return s.Mode & unix.S_IFMT }

func lstat(dir *os.File, name string) *side {
	s := &side{dir: dir, name: name}
	if unix.Fstatat(int(dir.Fd()), name, &s.Stat_t, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil
	}
	return s
}

const (
	// Several goroutines lstat ahead: each call is a round trip into gVisor, and may wait for the disk.
	aheadNames = 32
	lookers    = 4
)

type sidePrefetcher struct {
	w     *walk
	dir   *os.File
	path  string
	begun int     // index after the last prefetched name
	ahead []*side // prefetched sides of the names before begun; nil: missing or not on this page
}

func (w *walk) sides(dir *os.File, path string) *sidePrefetcher {
	return &sidePrefetcher{w: w, dir: dir, path: path}
}

// at returns nil if list[i] is missing or not on this page. Callers pass i in ascending order.
func (s *sidePrefetcher) at(list []string, i int) *side {
	if i >= s.begun {
		end := min(i+aheadNames, len(list))
		s.ahead, s.begun = s.look(list[i:end]), end
	}
	return s.ahead[len(s.ahead)-(s.begun-i)]
}

func (s *sidePrefetcher) look(list []string) []*side {
	found := make([]*side, len(list))
	var all sync.WaitGroup
	for first := range min(lookers, len(list)) {
		all.Go(func() {
			for i := first; i < len(list); i += lookers {
				if s.w.concerns(s.path+"/"+list[i], list[i]) {
					found[i] = lstat(s.dir, list[i])
				}
			}
		})
	}
	all.Wait()
	return found
}

func (w *walk) names(dir *os.File) []dirents.Item {
	if w.dirents == nil {
		w.dirents = make([]byte, dirents.BufferBytes)
	}
	return dirents.Read(int(dir.Fd()), w.dirents, namesMax)
}

// sideFromDirent returns nil if the entry needs an lstat. A summary needs only types, and the disk reader stats
// files and links with UTF-8 paths.
func (w *walk) sideFromDirent(dir *os.File, it dirents.Item, path string) *side {
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
