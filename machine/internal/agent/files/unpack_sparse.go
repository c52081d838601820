package files

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"strings"
)

const (
	// Go's tar reader returns holes as zeros. Reading them takes time, so the size of files with their holes is
	// limited.
	sparseBytesMax = 64 << 30
	zerosBytes     = 4 << 10
)

func hasHoles(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

func (u *unpacking) copyData(f *os.File, from io.Reader, size int64) (int64, error) {
	for at := int64(0); at < size; {
		part := u.buffer[:min(int64(len(u.buffer)), size-at)]
		n, err := io.ReadFull(from, part)
		if err == nil {
			err = writeData(f, part, at)
		}
		if err != nil {
			return at + int64(n), err
		}
		at += int64(n)
	}
	return size, f.Truncate(size)
}

func writeData(f *os.File, part []byte, at int64) error {
	for from := 0; from < len(part); {
		to := from
		for to < len(part) && !isZero(part[to:min(to+zerosBytes, len(part))]) {
			to = min(to+zerosBytes, len(part))
		}
		if _, err := f.WriteAt(part[from:to], at+int64(from)); err != nil {
			return err
		}
		for from = to; from < len(part) && isZero(part[from:min(from+zerosBytes, len(part))]); {
			from = min(from+zerosBytes, len(part))
		}
	}
	return nil
}

var zeros [zerosBytes]byte

func isZero(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }
