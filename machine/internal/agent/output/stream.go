// Package output stores byte streams in segment files, with offsets that only grow.
package output

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/plainfile"
)

// SegmentBytes is the largest size of a segment, the unit of eviction.
const SegmentBytes = 8 << 20

// SegmentFor returns a size that is small compared with limit, because only whole segments are evicted.
func SegmentFor(limit int64) int64 { return min(SegmentBytes, max(limit/16, 64<<10)) }

// While the disk refuses output, a stream has at most this much in memory, so that a command can look for the cause
// of a full disk. A thousand commands with two streams use 32 MiB.
const heldBytesMax = 16 << 10

// ErrExpired means that the bytes at an offset are no longer retained.
var ErrExpired = errors.New("output: below the retained range")

// One goroutine appends to a Stream and seals it; any number may read and evict. No disk access happens with mu
// held, so a slow disk blocks only the goroutine that uses it.
type Stream struct {
	dir, name    string
	segmentBytes int64

	file *os.File // last segment, while open; used by the appender only

	mu       sync.Mutex
	segments []segment // ascending, without gaps
	end      int64
	held     int  // bytes in memory
	open     bool // the last segment accepts appends
}

type segment struct {
	start, end int64
	held       []byte
}

// NewStream returns an empty stream. Its files are dir/name.<first offset of the segment>.
func NewStream(dir, name string, segmentBytes int64) *Stream {
	return &Stream{dir: dir, name: name, segmentBytes: segmentBytes}
}

// LoadStream reads an earlier boot's files. end is the recorded end, which may be beyond the retained bytes, or -1
// without a record.
func LoadStream(dir, name string, end int64) (*Stream, error) {
	s := NewStream(dir, name, SegmentBytes)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), name+".")
		start, bad := strconv.ParseInt(text, 10, 64)
		info, err := e.Info()
		if ok && bad == nil && start >= 0 && err == nil {
			s.segments = append(s.segments, segment{start: start, end: start + info.Size()})
		}
	}
	sort.Slice(s.segments, func(i, j int) bool { return s.segments[i].start < s.segments[j].start })
	s.keepLastRun()
	s.end = end
	if n := len(s.segments); n > 0 {
		s.end = max(end, s.segments[n-1].end)
	}
	s.end = max(s.end, 0)
	return s, nil
}

// A crash can lose the end of any segment. Only the segments after the last gap remain in use.
func (s *Stream) keepLastRun() {
	for i := len(s.segments) - 1; i > 0; i-- {
		if s.segments[i-1].end != s.segments[i].start {
			s.segments = s.segments[i:]
			return
		}
	}
}

// Append returns the change of retained bytes. If the disk refuses p, p is stored in memory within heldBytesMax.
// Beyond it p is lost, and its offsets read as expired.
func (s *Stream) Append(p []byte) (grown int64, err error) {
	if err = s.write(p); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.end += int64(len(p))
		s.segments[len(s.segments)-1].end = s.end
		return int64(len(p)), nil
	}
	s.closeFile()
	if s.hold(p) {
		return int64(len(p)), nil
	}
	return -s.lose(len(p)), err
}

func (s *Stream) write(p []byte) error {
	if err := s.ensureSegment(); err != nil {
		return err
	}
	_, err := s.file.Write(p)
	return err
}

func (s *Stream) hold(p []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held+len(p) > heldBytesMax {
		return false
	}
	if n := len(s.segments); n > 0 && s.segments[n-1].start == s.segments[n-1].end {
		s.segments = s.segments[:n-1] // the file created for p has no bytes
	}
	n := len(s.segments)
	if n == 0 || s.segments[n-1].held == nil {
		s.segments = append(s.segments, segment{start: s.end, end: s.end})
		n++
	}
	last := &s.segments[n-1]
	last.held = append(last.held, p...) // readers read no further than the end that they were given
	s.end += int64(len(p))
	s.held += len(p)
	last.end = s.end
	return true
}

func (s *Stream) ensureSegment() error {
	s.mu.Lock()
	n, at := len(s.segments), s.end
	hasRoom := s.open && s.segments[n-1].end-s.segments[n-1].start < s.segmentBytes
	s.mu.Unlock()
	if hasRoom {
		return nil
	}
	s.closeFile()
	f, err := s.create(at)
	if err != nil {
		return err
	}
	s.file = f
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments = append(s.segments, segment{start: at, end: at})
	s.open = true
	return nil
}

// create makes the directory with the first file, because many commands write nothing.
func (s *Stream) create(start int64) (*os.File, error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_TRUNC | unix.O_APPEND
	f, err := plainfile.Open(s.path(start), flags, 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return plainfile.Open(s.path(start), flags, 0o600)
}

// lose drops all earlier bytes too, because retained bytes have no gaps.
func (s *Stream) lose(n int) (freed int64) {
	s.mu.Lock()
	gone := s.take(len(s.segments))
	s.end += int64(n)
	s.mu.Unlock()
	return s.remove(gone)
}

func (s *Stream) path(start int64) string {
	return filepath.Join(s.dir, s.name+"."+strconv.FormatInt(start, 10))
}

func (s *Stream) closeFile() {
	if s.file == nil {
		return
	}
	s.mu.Lock()
	s.open = false
	s.mu.Unlock()
	s.file.Close()
	s.file = nil
}

func (s *Stream) Seal() { s.closeFile() }

// take removes the first n segments from the stream. The caller deletes the segments' files with mu released.
func (s *Stream) take(n int) []segment {
	gone := s.segments[:n]
	for _, old := range gone {
		s.held -= len(old.held)
	}
	s.segments = append([]segment(nil), s.segments[n:]...)
	return gone
}

func (s *Stream) remove(gone []segment) (freed int64) {
	for _, old := range gone {
		// A file that cannot be removed is no longer served, so the error is ignored. A segment in memory may have a
		// partly written file.
		_ = os.Remove(s.path(old.start))
		freed += old.end - old.start
	}
	return freed
}

// DropOldest removes the oldest segment, unless it is open for appends.
func (s *Stream) DropOldest() (freed int64) { return s.remove(s.takeOldest()) }

func (s *Stream) takeAll() []segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(len(s.segments))
}

func (s *Stream) takeOldest() []segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.segments) == 0 || len(s.segments) == 1 && s.open {
		return nil
	}
	return s.take(1)
}

// Range returns the first retained offset and the offset of the end.
func (s *Stream) Range() (first, end int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.segments) == 0 {
		return s.end, s.end
	}
	return s.segments[0].start, s.end
}

// Retained returns the number of retained bytes, including those in memory.
func (s *Stream) Retained() int64 {
	first, end := s.Range()
	return end - first
}

func (s *Stream) locate(offset int64) (segment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := sort.Search(len(s.segments), func(i int) bool { return s.segments[i].end > offset })
	if i == len(s.segments) || s.segments[i].start > offset {
		return segment{}, ErrExpired
	}
	return s.segments[i], nil
}
