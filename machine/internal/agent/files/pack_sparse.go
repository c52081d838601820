package files

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Fewer programs read the sparse format, so it is used only if a file has this many bytes in holes.
	holesBytesMin = 1 << 20
	// Smaller holes are sent as zeros.
	holeBytesMin = 64 << 10
	// Go's tar reader refuses a sparse map above 1 MiB, so the number of pieces is limited.
	sparsePiecesMax = 16 << 10
	// After this many searches for a hole, the rest of the file is sent as data.
	holesLookedAtMax = 64 << 10

	tarBlock = 512
)

type piece struct{ at, size int64 }

// dataOf returns nil if the holes are too small or the file system does not report them. After a final hole comes an
// empty piece, because GNU tar expects one.
func dataOf(f *os.File, size int64) []piece {
	var pieces []piece
	holes := int64(0)
	for at, looks := int64(0), 0; at < size; looks++ {
		from, to, err := nextData(f, at, size)
		if err != nil {
			return nil
		}
		if looks == holesLookedAtMax || len(pieces) == sparsePiecesMax-1 {
			to = size
		}
		if n := len(pieces); from < size && n > 0 && from-at < holeBytesMin {
			pieces[n-1].size = to - pieces[n-1].at
		} else {
			holes += from - at
			pieces = append(pieces, piece{from, to - from})
		}
		at = to
	}
	if holes < holesBytesMin {
		return nil
	}
	return pieces
}

func nextData(f *os.File, at, size int64) (from, to int64, err error) {
	from, err = unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return size, size, nil
	}
	if err != nil || from >= size {
		return size, size, err
	}
	to, err = unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
	if err == nil && to <= from {
		err = unix.EINVAL // a file system that reports this would make the loop endless
	}
	return from, min(to, size), err
}

// sparse writes GNU tar's PAX sparse format 1.0. A reader without this format shows another file name instead of
// wrong content.
func (p *Pack) sparse(archive *tar.Writer, f *os.File, header *tar.Header, pieces []piece) error {
	sparseMap := strconv.AppendInt(nil, int64(len(pieces)), 10)
	sparseMap = append(sparseMap, '\n')
	archived := int64(0)
	for _, piece := range pieces {
		sparseMap = fmt.Appendf(sparseMap, "%d\n%d\n", piece.at, piece.size)
		archived += piece.size
	}
	sparseMap = padded(sparseMap)
	archived += int64(len(sparseMap))
	if err := archive.Flush(); err != nil { // the bytes below bypass the tar writer
		return err
	}
	if _, err := p.out.Write(append(sparseHead(header, archived), sparseMap...)); err != nil {
		return err
	}
	for _, piece := range pieces {
		if err := p.send(p.out, f, piece); err != nil {
			return err
		}
	}
	_, err := p.out.Write(make([]byte, -archived&(tarBlock-1)))
	return err
}

func padded(b []byte) []byte { return append(b, make([]byte, -len(b)&(tarBlock-1))...) }

// sparseHead builds the header by hand, because Go's tar writer cannot write sparse files.
func sparseHead(h *tar.Header, archived int64) []byte {
	dir, base := path.Split(h.Name)
	var records []byte
	for _, r := range [][2]string{
		{"path", dir + "GNUSparseFile.0/" + base}, // Python uses the last name in the records, which is GNU.sparse.name
		{"mtime", seconds(h.ModTime)},
		{"uid", strconv.Itoa(h.Uid)},
		{"gid", strconv.Itoa(h.Gid)},
		{"GNU.sparse.major", "1"},
		{"GNU.sparse.minor", "0"},
		{"GNU.sparse.name", h.Name},
		{"GNU.sparse.realsize", strconv.FormatInt(h.Size, 10)},
	} {
		records = append(records, record(r[0], r[1])...)
	}
	head := plainHead(tar.TypeXHeader, "PaxHeaders.0/"+base, 0o644, int64(len(records)))
	head = append(head, padded(records)...)
	return append(head, plainHead(tar.TypeReg, "GNUSparseFile.0/"+base, h.Mode, archived)...)
}

// record formats "<length of the whole record> <key>=<value>\n".
func record(key, value string) string {
	rest := " " + key + "=" + value + "\n"
	size := len(rest) + len(strconv.Itoa(len(rest)))
	size = len(rest) + len(strconv.Itoa(size))
	return strconv.Itoa(size) + rest
}

func seconds(t time.Time) string {
	ms, sign := t.UnixMilli(), ""
	if ms < 0 {
		ms, sign = -ms, "-"
	}
	if ms%1000 == 0 {
		return sign + strconv.FormatInt(ms/1000, 10)
	}
	return fmt.Sprintf("%s%d.%03d", sign, ms/1000, ms%1000)
}

// plainHead writes zeros for owner and time, because the PAX records contain them.
func plainHead(kind byte, name string, mode, size int64) []byte {
	b := make([]byte, tarBlock)
	copy(b[:100], name)
	copy(b[100:], fmt.Sprintf("%07o", mode))
	copy(b[108:], "0000000\x000000000\x00")
	copy(b[124:], sizeField(size))
	copy(b[136:], "00000000000\x00")
	b[156] = kind
	copy(b[257:], "ustar\x0000")
	copy(b[148:156], "        ")
	sum := 0
	for _, each := range b {
		sum += int(each)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

// sizeField is octal, or base 256 from 8 GiB on. A PAX record "size" would not do, because Python would include the
// holes in it.
func sizeField(size int64) []byte {
	if size < 1<<33 {
		return fmt.Appendf(nil, "%011o\x00", size)
	}
	field := make([]byte, 12)
	for i := len(field) - 1; size > 0; i-- {
		field[i], size = byte(size), size>>8
	}
	field[0] = 0x80
	return field
}

func (p *Pack) send(w io.Writer, f *os.File, part piece) error {
	from := cancelableReader{io.NewSectionReader(f, part.at, part.size), p.gone}
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, from, p.buffer)
	if err == nil && n != part.size {
		err = becameSmaller()
	}
	return err
}
