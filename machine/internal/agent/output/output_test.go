package output

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7 >> 3)
	}
	return b
}

func readAll(t *testing.T, s *Stream, offset int64) []byte {
	t.Helper()
	r := s.NewReader(offset)
	defer r.Close()
	var all []byte
	buffer := make([]byte, 777)
	for {
		n, err := r.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return all
		}
		all = append(all, buffer[:n]...)
	}
}

func TestEveryByteComesBackAcrossSegmentsAndAReload(t *testing.T) {
	dir := t.TempDir()
	s := NewStream(dir, "stdout", 1000)
	want := pattern(12345)
	for i := 0; i < len(want); i += 617 {
		if _, err := s.Append(want[i:min(i+617, len(want))]); err != nil {
			t.Fatal(err)
		}
	}
	s.Seal()
	for _, offset := range []int64{0, 1, 999, 1000, 12344, 12345} {
		if !bytes.Equal(readAll(t, s, offset), want[offset:]) {
			t.Fatalf("from %d", offset)
		}
	}
	again, err := LoadStream(dir, "stdout", 12345)
	if err != nil || !bytes.Equal(readAll(t, again, 0), want) {
		t.Fatalf("after a reload: %v", err)
	}
}

func TestDroppedBytesReadAsExpiredAndOffsetsStay(t *testing.T) {
	dir := t.TempDir()
	s := NewStream(dir, "stdout", 1000)
	for range 5 {
		if _, err := s.Append(pattern(1000)); err != nil {
			t.Fatal(err)
		}
	}
	if freed := s.DropOldest(); freed != 1000 {
		t.Fatalf("freed %d", freed)
	}
	if first, end := s.Range(); first != 1000 || end != 5000 {
		t.Fatalf("%d..%d", first, end)
	}
	if _, err := s.NewReader(999).Read(make([]byte, 1)); !errors.Is(err, ErrExpired) {
		t.Fatalf("%v", err)
	}
	for s.DropOldest() > 0 {
	}
	if first, end := s.Range(); first != 4000 || end != 5000 {
		t.Fatalf("%d..%d", first, end)
	}
	s.Seal()
	for s.DropOldest() > 0 {
	}
	again, err := LoadStream(dir, "stdout", 5000)
	if err != nil {
		t.Fatal(err)
	}
	if first, end := again.Range(); first != 5000 || end != 5000 {
		t.Fatalf("reloaded %d..%d", first, end)
	}
}

func TestBytesTheDiskRefusesAreHeldInMemoryThenCountedAndExpired(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := NewStream(dir, "stdout", 10)
	if _, err := s.Append(pattern(10)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.Append([]byte("refused")); err != nil {
			t.Fatal(err)
		}
	}
	r := s.NewReader(12)
	defer r.Close()
	got := make([]byte, 100)
	if n, err := r.Read(got); err != nil || string(got[:n]) != "fusedrefused" {
		t.Fatalf("read %q, %v", got[:n], err)
	}
	if _, err := s.Append(pattern(heldBytesMax)); err == nil {
		t.Fatal("the append beyond what memory may hold succeeded")
	}
	if first, end := s.Range(); first != end || end != 24+heldBytesMax {
		t.Fatalf("%d..%d", first, end)
	}
	if _, err := s.Append([]byte("x")); err != nil {
		t.Fatalf("memory was not given back: %v", err)
	}
}

func TestAReloadStartsBehindAGap(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"stdout.0": 10, "stdout.20": 5, "stdout.25": 5, "stdout.x": 3, "stderr.0": 3} {
		if err := os.WriteFile(filepath.Join(dir, name), pattern(size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := LoadStream(dir, "stdout", 0)
	if err != nil {
		t.Fatal(err)
	}
	if first, end := s.Range(); first != 20 || end != 30 {
		t.Fatalf("%d..%d", first, end)
	}
}

func TestAFrameIsHeaderAndData(t *testing.T) {
	var b bytes.Buffer
	f := NewFrameWriter(&b)
	n := copy(f.Buffer(), "hello")
	if err := f.Send(wire.FrameStderr, 1<<40, n); err != nil {
		t.Fatal(err)
	}
	got := b.Bytes()
	if len(got) != wire.FrameHeader+5 || got[0] != wire.FrameStderr || binary.BigEndian.Uint32(got[4:]) != 5 ||
		binary.BigEndian.Uint64(got[8:]) != 1<<40 || string(got[16:]) != "hello" {
		t.Fatalf("% x", got)
	}
}
