package changes

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/files"
)

// sameStat decides whether an entry outside the upper layer is the template's entry. Inode numbers would be exact,
// but the engine invents its own.
func sameStat(a, b *side) bool {
	return sameOwner(a, b) && a.Mtim == b.Mtim && a.Rdev == b.Rdev && (a.kind() == unix.S_IFDIR || a.Size == b.Size)
}

func sameOwner(a, b *side) bool { return a.Mode == b.Mode && a.Uid == b.Uid && a.Gid == b.Gid }

// compareEntries returns "" for no change. A directory's mtime is ignored, because it changes with each entry.
func (w *walk) compareEntries(now, before *side) string {
	switch now.kind() {
	case unix.S_IFDIR:
		if sameOwner(now, before) {
			return ""
		}
		return metadata
	case unix.S_IFREG:
		if !w.sameContent(now, before) {
			return modified
		}
	case unix.S_IFLNK:
		if target(now) != target(before) {
			return modified
		}
	default:
		if now.Rdev != before.Rdev {
			return modified
		}
	}
	if sameOwner(now, before) && now.Mtim == before.Mtim {
		return ""
	}
	return metadata
}

func (w *walk) isOwn(now *side, path string) bool {
	own, ok := w.req.Own[path]
	if !ok || now.Mode != unix.S_IFREG|own.Mode || now.Uid != 0 || now.Gid != 0 || now.Size != int64(len(own.Content)) {
		return false
	}
	f := now.file()
	if f == nil {
		return false
	}
	defer f.Close()
	return sameBytes(f, bytes.NewReader(own.Content))
}

func target(s *side) string {
	var buffer [pathBytesMax]byte
	n, err := unix.Readlinkat(int(s.dir.Fd()), s.name, buffer[:])
	if err != nil {
		return ""
	}
	return string(buffer[:n])
}

// Beyond the call's budget of bytes, files of equal size are compared by mtime only.
func (w *walk) sameContent(now, before *side) bool {
	if now.Size != before.Size {
		return false
	}
	if now.Size > w.budget {
		return now.Mtim == before.Mtim
	}
	w.budget -= now.Size
	a, b := now.file(), before.file()
	if a != nil {
		defer a.Close()
	}
	if b != nil {
		defer b.Close()
	}
	return a != nil && b != nil && sameBytes(a, b)
}

// file stats the open file again, because the entry may have been replaced since its first stat.
func (s *side) file() *os.File {
	fd, err := unix.Openat(int(s.dir.Fd()), s.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), "file")
	if unix.Fstat(fd, &s.Stat_t) != nil || s.kind() != unix.S_IFREG {
		f.Close()
		return nil
	}
	return f
}

func sameBytes(a, b io.Reader) bool {
	first, second := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errA := io.ReadFull(a, first)
		m, errB := io.ReadFull(b, second)
		if n != m || !bytes.Equal(first[:n], second[:m]) {
			return false
		}
		if errA != nil || errB != nil {
			return errA == errB
		}
	}
}

func (s *side) digest() string {
	f := s.file()
	if f == nil {
		return ""
	}
	defer f.Close()
	sum, err := files.Digest(f, &s.Stat_t, hashBytesMax)
	if err != nil {
		return ""
	}
	return sum
}
