package session

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestWhatTheDiskRefusesOfOneCommandTakesNothingFromAnother(t *testing.T) {
	dir := t.TempDir()
	m := open(t, dir, 1<<20)
	short, _, err := m.Start(request("short", "echo here"))
	if err != nil {
		t.Fatal(err)
	}
	awaitRecord(t, short)
	if err := os.WriteFile(filepath.Join(dir, dirName("flood")), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	flood, _, err := m.Start(request("flood", "head -c 20000000 /dev/zero"))
	if err != nil {
		t.Fatal(err)
	}
	awaitRecord(t, flood)
	if r := flood.Record(); r.StdoutBytes != 20000000 || r.StdoutBytes-r.StdoutAvailable > 16<<10 {
		t.Fatalf("%+v", r)
	}
	if out, _, kind := result(t, short); out != "here\n" || kind != wire.FrameExit {
		t.Fatalf("%q, %d", out, kind)
	}
}

// The file is a pipe, so the first write blocks, like on a throttled disk.
func stuckOutput(t *testing.T, dir, id string) (release func()) {
	t.Helper()
	own := filepath.Join(dir, dirName(id))
	fifo := filepath.Join(own, "stdout.0")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {
		f, err := os.OpenFile(fifo, os.O_RDWR, 0)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { f.Close() })
		go func() { _, _ = io.Copy(io.Discard, f) }() // until closed
	}
}

func TestADiskThatKeepsOneCommandWaitingHoldsUpNeitherOutputNorEndOfAnother(t *testing.T) {
	dir := t.TempDir()
	m := open(t, dir, 1<<20)
	for id, line := range map[string]string{"ends": "echo out", "goes-on": "head -c 1000000 /dev/zero; exec sleep 100"} {
		release := stuckOutput(t, dir, id)
		stuck, _, err := m.Start(request(id, line))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			other, _, err := m.Start(request("after-"+id+strconv.Itoa(i), "echo said; exit 3"))
			if err != nil {
				t.Fatal(err)
			}
			if out, _, kind := result(t, other); out != "said\n" || kind != wire.FrameExit {
				t.Fatalf("%q, %d", out, kind)
			}
		}
		if !stuck.running() {
			t.Fatalf("the output of %s was not held up: %+v", id, stuck.Record())
		}
		m.Cancel(stuck)
		release()
		<-waitEnd(stuck)
	}
}
