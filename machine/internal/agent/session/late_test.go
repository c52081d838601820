package session

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/record"
	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestWhatABackgroundProcessWritesAfterTheExitIsKeptForAWhileAndThenDropped(t *testing.T) {
	dir := t.TempDir()
	m := open(t, filepath.Join(dir, "state"), 0)
	m.late = time.Hour // longer than the test, which ends this period by endLate()
	// On a shared pipe, the second reader could meet the first writer, and read its end.
	write, writeMore, done := filepath.Join(dir, "write"), filepath.Join(dir, "more"), filepath.Join(dir, "done")
	for _, pipe := range []string{write, writeMore} {
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, _, err := m.Start(request("late", `(read a <`+write+`; echo late; echo late >&2; read a <`+writeMore+`; echo dropped && : >`+done+`) & echo hi`))
	if err != nil {
		t.Fatal(err)
	}
	if stdout, last, kind := result(t, s); stdout != "hi\n" || kind != wire.FrameExit {
		t.Fatalf("%q %s", stdout, last)
	}
	tell(t, write)
	await(t, func() bool { r := s.Record(); return r.StdoutBytes == 8 && r.StderrBytes == 5 })
	if stdout, last, kind := result(t, s); stdout != "hi\nlate\n" || kind != wire.FrameExit {
		t.Fatalf("%q %s", stdout, last)
	}
	s.endLate()
	tell(t, writeMore)
	await(t, func() bool { _, err := os.Stat(done); return err == nil })
	if r := s.Record(); r.State != record.Exited || r.StdoutBytes != 8 {
		t.Fatalf("%+v", r)
	}
	if e, err := readRecord(s.dir, ""); err != nil || e.Record.StdoutBytes != 8 || *e.Record.ExitCode != 0 {
		t.Fatalf("%+v %v", e, err)
	}
}

func TestOfLateOutputSoMuchIsKept(t *testing.T) {
	dir := t.TempDir()
	m := open(t, filepath.Join(dir, "state"), 0)
	m.late = time.Hour
	go_on, done := filepath.Join(dir, "go"), filepath.Join(dir, "done")
	if err := syscall.Mkfifo(go_on, 0o600); err != nil {
		t.Fatal(err)
	}
	s, _, err := m.Start(request("flood", `(read a <`+go_on+`; head -c 3000000 /dev/zero && : >`+done+`) & echo hi`))
	if err != nil {
		t.Fatal(err)
	}
	result(t, s)
	tell(t, go_on)
	await(t, func() bool { _, err := os.Stat(done); return err == nil })
	s.endLate()
	if r := s.Record(); r.StdoutBytes != 3+lateBytesMax {
		t.Fatalf("%+v", r)
	}
}

func tell(t *testing.T, pipe string) {
	t.Helper()
	if err := os.WriteFile(pipe, []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
}

func await(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(testns.Patience(10 * time.Second)); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come to it in 10 s")
		}
	}
}
