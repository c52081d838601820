package search

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/dirents"
)

const (
	// Files are read in advance, in parallel: each call is a round trip into gVisor, and may wait for the disk.
	aheadFiles    = 8
	aheadBytesMax = 256 << 10
)

// size 0 means that there is nothing to search.
type content struct {
	fd     int // -1: closed
	size   int64
	text   []byte // nil: not read yet
	buffer []byte
	ready  chan struct{}
}

type prefetcher struct {
	s     *search
	dir   int
	items []dirents.Item
	begun int // items before this index are opened, or not searched
	of    map[int]*content
	wants func(dirents.Item) bool
}

// at prefetches only up to the next directory, so that no prefetched file is open while the directory is searched.
func (a *prefetcher) at(i int) *content {
	for a.begun = max(a.begun, i); a.begun < len(a.items) && a.begun < i+aheadFiles; a.begun++ {
		it := a.items[a.begun]
		if it.Kind == unix.DT_DIR || it.Kind == unix.DT_UNKNOWN {
			break
		}
		if it.Kind == unix.DT_REG && a.wants(it) {
			a.of[a.begun] = a.s.openAhead(a.dir, it.Name)
		}
	}
	c := a.of[i]
	delete(a.of, i)
	if c == nil {
		c = a.s.openAhead(a.dir, a.items[i].Name)
	}
	<-c.ready
	return c
}

func (a *prefetcher) close() {
	for _, c := range a.of {
		<-c.ready
		a.s.done(c)
	}
}

func (s *search) openAhead(dir int, name string) *content {
	c := &content{fd: -1, ready: make(chan struct{})}
	if last := len(s.free) - 1; last >= 0 {
		c.buffer, s.free = s.free[last], s.free[:last]
	}
	fileBytesMax := s.req.MaxFileBytes
	go func() {
		defer close(c.ready)
		flags := unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
		fd, err := unix.Openat(dir, name, flags, 0)
		if err != nil {
			return
		}
		c.take(fd, fileBytesMax)
		if c.size > 0 && c.size <= aheadBytesMax {
			c.read()
		}
	}()
	return c
}

func (c *content) take(fd int, fileBytesMax int64) {
	c.fd = fd
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size == 0 || st.Size > fileBytesMax {
		c.close()
		return
	}
	c.size = st.Size
}

// read treats an unreadable file as empty.
func (c *content) read() {
	if c.text != nil || c.size == 0 {
		return
	}
	defer c.close()
	if int64(cap(c.buffer)) < c.size {
		c.buffer = make([]byte, max(c.size, 16<<10))
	}
	n, err := io.ReadFull(raw(c.fd), c.buffer[:c.size])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		c.size = 0
		return
	}
	c.text = c.buffer[:n]
}

func (c *content) close() {
	if c.fd >= 0 {
		unix.Close(c.fd)
		c.fd = -1
	}
}

func (s *search) done(c *content) {
	c.close()
	if cap(c.buffer) > 0 && cap(c.buffer) <= aheadBytesMax {
		s.free = append(s.free, c.buffer)
	}
}

// raw avoids package os, which would add two calls per file.
type raw int

func (fd raw) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(int(fd), b)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, err
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		}
		return n, nil
	}
}
