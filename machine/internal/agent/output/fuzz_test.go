package output

import (
	"errors"
	"testing"
)

func FuzzNoByteIsSkippedInSilence(f *testing.F) {
	f.Add([]byte{10, 20, 0, 3, 255, 9, 1, 60})
	f.Add([]byte{255, 1, 255, 200, 0, 0, 7})
	f.Fuzz(func(t *testing.T, moves []byte) {
		s := NewStream(t.TempDir()+"/session", "stdout", 16)
		defer s.Seal()
		var written int64
		r := s.NewReader(0)
		defer r.Close()
		buffer := make([]byte, 7)
		for _, move := range moves[:min(len(moves), 200)] {
			switch {
			case move == 255:
				s.DropOldest()
			case move >= 200:
				before := r.Offset()
				n, err := r.Read(buffer)
				first, end := s.Range()
				if expired := before < first; expired != errors.Is(err, ErrExpired) || !expired && (err != nil || n == 0 != (before == end)) {
					t.Fatalf("read at %d of %d..%d: %d %v", before, first, end, n, err)
				}
				if r.Offset() != before+int64(n) {
					t.Fatalf("read %d at %d, then stands at %d", n, before, r.Offset())
				}
				for i, b := range buffer[:n] {
					if at := before + int64(i); b != byteAt(at) {
						t.Fatalf("byte %d is %d", at, b)
					}
				}
				if err != nil {
					r.Close()
					r = s.NewReader(first)
				}
			default:
				p := make([]byte, int(move)+1)
				for i := range p {
					p[i] = byteAt(written + int64(i))
				}
				if _, err := s.Append(p); err != nil {
					t.Fatal(err)
				}
				written += int64(len(p))
			}
			if first, end := s.Range(); end != written || first > end {
				t.Fatalf("%d..%d of %d", first, end, written)
			}
		}
	})
}

func byteAt(offset int64) byte { return byte(offset*7 + offset>>8) }
