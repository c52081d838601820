package files

import (
	"bytes"
	"io"
	"os"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
)

// ReadRevisionBytesMax is the size up to which Read computes a revision.
const ReadRevisionBytesMax = 16 << 20

type Content struct {
	io.Reader
	File      *os.File
	SizeBytes int64
	Length    int64 // of the range; -1 is until the end, for files without a size, such as those in /proc
	Partial   bool  // the caller asked for an offset or a length
	Revision  string
}

// Read reads until the end if length is -1. The caller closes Content.File.
func Read(r *guestroot.Root, path string, offset, length int64, withRevision bool) (*Content, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	if offset < 0 || length < -1 {
		return nil, fail.BadRequest("invalid_range", "offset and length are not negative")
	}
	f, st, err := openRegular(r, path)
	if err != nil {
		return nil, err
	}
	c := &Content{File: f, SizeBytes: st.Size, Partial: offset > 0 || length >= 0}
	if err := c.limit(offset, length); err != nil {
		f.Close()
		return nil, err
	}
	if withRevision && st.Size <= ReadRevisionBytesMax && c.Length >= 0 {
		if c.Revision, err = Digest(f, &st, ReadRevisionBytesMax); err != nil {
			f.Close()
			return nil, Explain(err, path)
		}
	}
	return c, nil
}

func (c *Content) limit(offset, length int64) error {
	if c.SizeBytes == 0 && offset == 0 {
		return c.limitUnknown()
	}
	if offset > c.SizeBytes {
		return fail.RangeNotSatisfiable(c.SizeBytes)
	}
	c.Length = c.SizeBytes - offset
	if length >= 0 {
		c.Length = min(c.Length, length)
	}
	c.Reader = io.NewSectionReader(c.File, offset, c.Length)
	return nil
}

// A file in /proc reports size 0 but has content, so limitUnknown reads its first bytes.
func (c *Content) limitUnknown() error {
	first := make([]byte, 4<<10)
	n, err := io.ReadAtLeast(c.File, first, 1)
	if err != nil && err != io.EOF {
		return err
	}
	c.Reader = io.LimitReader(io.MultiReader(bytes.NewReader(first[:n]), c.File), unknownBytesMax)
	if n > 0 {
		c.Length = -1
	}
	return nil
}

const unknownBytesMax = 16 << 20
