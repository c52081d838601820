package output

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The file is a pipe, so the first write blocks, like on a throttled disk.
func TestWhatWaitsForTheDiskIsBoundedAndAllOfItIsWritten(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "stdout.0")
	if err := unix.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	var queues Queues
	written := make(chan int64, 100)
	q := queues.NewQueue(NewStream(dir, "stdout", SegmentBytes), func(grown int64) { written <- grown })
	var want []byte
	put := func(n int) {
		p := pattern(n)
		want = append(want, p...)
		q.Put(p)
	}
	put(1) // the disk is writing this piece, and accepts no other
	for q.Capacity() == QueueBytesMax {
		put(1000)
	}
	for q.Capacity() > 0 {
		put(min(10000, q.Capacity()))
	}
	roomy := make(chan struct{})
	if !q.OnCapacity(func() { close(roomy) }) {
		t.Fatal("there is room")
	}
	if waits := queues.bytes.Load(); waits < QueueBytesMax || waits > 2*QueueBytesMax || len(written) > 0 {
		t.Fatalf("%d bytes wait", waits)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(f, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("what came is not what was put: %v", err)
	}
	<-roomy
	q.Wait()
	total := int64(0)
	for len(written) > 0 {
		total += <-written
	}
	if waits := queues.bytes.Load(); waits != 0 || total != int64(len(want)) || q.Capacity() != QueueBytesMax {
		t.Fatalf("%d bytes wait, %d of %d are told of", waits, total, len(want))
	}
}

func TestWhereMuchWaitsEveryStreamMayStillHaveAPage(t *testing.T) {
	var queues Queues
	q := queues.NewQueue(NewStream(t.TempDir(), "stdout", SegmentBytes), func(int64) {})
	queues.bytes.Store(queuedBytesMax)
	if room := q.Capacity(); room != pageBytes {
		t.Fatalf("room for %d", room)
	}
}
