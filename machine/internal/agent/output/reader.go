package output

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/plainfile"
)

// Reader reads the retained segments at its own pace.
type Reader struct {
	stream *Stream
	offset int64
	file   *os.File
	start  int64 // of the open segment
}

func (s *Stream) NewReader(offset int64) *Reader { return &Reader{stream: s, offset: offset} }

func (r *Reader) Offset() int64 { return r.offset }

// Pending reports whether Read would return bytes or ErrExpired.
func (r *Reader) Pending() bool {
	_, end := r.stream.Range()
	return r.offset < end
}

// Read returns 0 and no error at the stream's current end.
func (r *Reader) Read(p []byte) (int, error) {
	first, end := r.stream.Range()
	if r.offset < first {
		return 0, ErrExpired
	}
	if r.offset >= end {
		return 0, nil
	}
	seg, err := r.open()
	if err != nil {
		return 0, err
	}
	if seg.held != nil {
		n := copy(p, seg.held[r.offset-seg.start:])
		r.offset += int64(n)
		return n, nil
	}
	n := min(int64(len(p)), seg.end-r.offset)
	got, err := r.file.ReadAt(p[:n], r.offset-seg.start)
	r.offset += int64(got)
	if int64(got) == n {
		return got, nil
	}
	return got, err
}

func (r *Reader) open() (segment, error) {
	seg, err := r.stream.locate(r.offset)
	if err != nil {
		return seg, err
	}
	if seg.held != nil || r.file != nil && r.start == seg.start {
		return seg, nil
	}
	r.Close()
	f, err := plainfile.Open(r.stream.path(seg.start), unix.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return seg, ErrExpired
	}
	if err != nil {
		return seg, err
	}
	r.file, r.start = f, seg.start
	return seg, nil
}

func (r *Reader) Close() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}
