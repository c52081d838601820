package pty

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/agent/procfs"
	"github.com/berth-dev/berth/machine/internal/agent/reap"
	"github.com/berth-dev/berth/machine/internal/agent/spawn"
	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

type here struct{}

func (here) User(name string) (guestroot.User, bool, error) {
	return guestroot.User{Name: name, Home: "/", Shell: "/bin/bash", UID: uint32(os.Getuid())}, name == "me", nil
}

func (here) Start(c *spawn.Command) (spawn.Started, error) {
	fd := uintptr(c.Stdin)
	pid, err := syscall.ForkExec(c.Argv[0], c.Argv, &syscall.ProcAttr{Dir: c.Cwd, Env: c.Env,
		Files: []uintptr{fd, fd, fd}, Sys: &syscall.SysProcAttr{Setsid: true, Setctty: true}})
	if err != nil {
		return spawn.Started{}, &spawn.StartError{Stage: spawn.StageExec, Errno: err.(syscall.Errno)}
	}
	return spawn.Started{PID: pid, GuestPID: pid}, nil
}

var reaper = sync.OnceValue(reap.New)

func open(dir string, limit int64) *Manager {
	return Open(dir, here{}, reaper(), wire.GuestLimits{OutputBytes: limit})
}

func request(id string, argv ...string) wire.PtyRequest {
	return wire.PtyRequest{SessionID: id, Fingerprint: "f", Argv: argv, Cwd: "/", User: "me", PtySize: wire.PtySize{Cols: 80, Rows: 24}}
}

func start(t *testing.T, m *Manager, req wire.PtyRequest) *Terminal {
	t.Helper()
	terminal, created, err := m.Start(req)
	if err != nil || !created {
		t.Fatalf("created %v, %v", created, err)
	}
	t.Cleanup(terminal.Close)
	return terminal
}

func sent(t *testing.T, terminal *Terminal, offset int64) (data string, kind byte, last []byte) {
	t.Helper()
	var all bytes.Buffer
	if err := terminal.Send(t.Context(), &all, offset); err != nil {
		t.Fatal(err)
	}
	for {
		head := all.Next(wire.FrameHeader)
		if len(head) == 0 {
			return data, kind, last
		}
		kind, last = head[0], all.Next(int(binary.BigEndian.Uint32(head[4:])))
		if kind == wire.FrameStdout {
			data += string(last)
		}
	}
}

func awaitBooked(t *testing.T, m *Manager) {
	t.Helper()
	for deadline := time.Now().Add(testns.Patience(time.Minute)); ; time.Sleep(time.Millisecond) {
		m.mu.Lock()
		running := m.running
		m.mu.Unlock()
		if running == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d terminals run", running)
		}
	}
}

func code(err error) string {
	var refused *fail.Error
	if errors.As(err, &refused) {
		return refused.Code + "/" + refused.Reason
	}
	return "not a refusal"
}

func TestATerminalTypesEchoesResizesAndEnds(t *testing.T) {
	m := open(t.TempDir(), 1<<20)
	terminal := start(t, m, request("a", "/bin/sh", "-c", `stty size; read line; echo "got $line in $TERM"; stty size; exit 3`))
	if err := errors.Join(terminal.Resize(wire.PtySize{Cols: 100, Rows: 40}), terminal.Write(t.Context(), []byte("hello\n"))); err != nil {
		t.Fatal(err)
	}
	data, kind, last := sent(t, terminal, 0)
	var r wire.PtyRecord
	if err := json.Unmarshal(last, &r); err != nil || kind != wire.FrameExit {
		t.Fatalf("kind %d: %v", kind, err)
	}
	if !strings.Contains(data, "hello\r\n") || !strings.HasSuffix(data, "got hello in xterm-256color\r\n40 100\r\n") {
		t.Fatalf("%q", data)
	}
	if r.State != "exited" || *r.ExitCode != 3 || r.Cols != 100 || r.Rows != 40 || r.Bytes != int64(len(data)) {
		t.Fatalf("%+v", r)
	}
	if tail, _, _ := sent(t, terminal, r.Bytes-5); tail != data[len(data)-5:] {
		t.Fatalf("%q", tail)
	}
	for _, err := range []error{terminal.Write(t.Context(), []byte("x")), terminal.Resize(wire.PtySize{Cols: 1, Rows: 1})} {
		if code(err) != "conflict/session_ended" {
			t.Fatal(err)
		}
	}
}

func TestAnIDOpensOnceAndItsRecordOutlivesTheManager(t *testing.T) {
	dir := t.TempDir()
	m := open(dir, 1<<20)
	first := start(t, m, request("a", "/bin/echo", "once"))
	data, _, _ := sent(t, first, 0)
	again, created, err := m.Start(request("a", "/bin/echo", "once"))
	if err != nil || created || again != first {
		t.Fatalf("created %v, %v", created, err)
	}
	other := request("a", "/bin/echo", "twice")
	other.Fingerprint = "g"
	if _, _, err := m.Start(other); code(err) != "conflict/operation_id_reused" {
		t.Fatal(err)
	}
	awaitBooked(t, m) // the end is announced before it is on disk
	loaded, err := open(dir, 1<<20).Get("a")
	if err != nil {
		t.Fatal(err)
	}
	want, got := first.Record(), loaded.Record()
	if kept, _, _ := sent(t, loaded, 0); kept != data || *got.ExitCode != 0 || got.State != want.State || got.Bytes != want.Bytes {
		t.Fatalf("%q %+v", kept, got)
	}
	if _, err := m.Get("b"); code(err) != "not_found/session_not_found" {
		t.Fatal(err)
	}
}

func TestAMachineThatIsGoneLeavesALostTerminal(t *testing.T) {
	dir := t.TempDir()
	running := start(t, open(dir, 1<<20), request("a", "/bin/cat"))
	found, err := open(dir, 1<<20).Get("a")
	if err != nil || found.Record().State != "lost" {
		t.Fatalf("%+v %v", found, err)
	}
	if _, kind, _ := sent(t, found, 0); kind != wire.FrameExit {
		t.Fatal(kind)
	}
	running.Close()
	if _, _, last := sent(t, running, 0); !bytes.Contains(last, []byte(`"term_signal":"SIGHUP"`)) {
		t.Fatalf("%s", last)
	}
}

func TestWhatCannotStartSaysWhy(t *testing.T) {
	m := open(t.TempDir(), 1<<20)
	stranger := request("a", "/bin/true")
	stranger.User = "nobody-here"
	for cause, req := range map[string]wire.PtyRequest{"nobody-here": stranger, "not found": request("b", "/no/such/program")} {
		terminal := start(t, m, req)
		r := terminal.Record()
		if r.State != "failed_to_start" || !strings.Contains(*r.Error, cause) || r.PID != nil || r.ExitCode != nil || r.StartedAt != nil {
			t.Fatalf("%+v", r)
		}
	}
	flat := request("c", "/bin/true")
	flat.Rows = 0
	if _, _, err := m.Start(flat); code(err) != "validation_failed/invalid_size" {
		t.Fatal(err)
	}
}

func TestCloseReachesEveryJobOfTheShell(t *testing.T) {
	m := open(t.TempDir(), 1<<20)
	terminal := start(t, m, request("a", "/bin/bash", "-c", `set -m; sleep 1000 & sleep 1000 & echo ready $!; trap "" HUP; wait; wait`))
	reader, writer := io.Pipe()
	go func() { _ = terminal.Send(t.Context(), writer, 0) }()
	if _, err := io.ReadFull(reader, make([]byte, wire.FrameHeader+6)); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, reader)
	terminal.Close()
	_, _, last := sent(t, terminal, 0)
	var r wire.PtyRecord
	if err := json.Unmarshal(last, &r); err != nil || r.State != "exited" {
		t.Fatalf("%s", last)
	}
	for deadline := time.Now().Add(testns.Patience(2*grace + 30*time.Second)); ; time.Sleep(10 * time.Millisecond) {
		left := livingIn(*r.PID)
		if left == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s lives on", left)
		}
	}
}

// livingIn skips zombies, which wait for a parent other than this process.
func livingIn(session int) (found string) {
	procfs.Visit(func(_ int, read func(file string) ([]byte, error)) {
		line, err := read("stat")
		if _, its, ok := groupOf(line); err == nil && ok && its == session && !bytes.Contains(line, []byte(") Z ")) {
			found = string(line)
		}
	})
	return found
}

func TestOutputBelowWhatIsKeptIsRefusedWithWhereItBegins(t *testing.T) {
	m := open(t.TempDir(), 128<<10)
	terminal := start(t, m, request("a", "/bin/sh", "-c", "yes 0123456789 | head -c 1000000"))
	_, kind, last := sent(t, terminal, terminal.Record().Bytes)
	for kind != wire.FrameExit { // the reader was slower than the eviction
		_, kind, last = sent(t, terminal, terminal.Record().Available)
	}
	var r wire.PtyRecord
	if err := json.Unmarshal(last, &r); err != nil || r.Bytes-r.Available > 128<<10 || r.Available == 0 {
		t.Fatalf("%s", last)
	}
	if _, kind, last := sent(t, terminal, 0); kind != wire.FrameError || !bytes.Contains(last, []byte("output_expired")) {
		t.Fatalf("%d %s", kind, last)
	}
	if code(terminal.CheckOffset(r.Bytes+1)) != "bad_request/offset_beyond_end" || terminal.CheckOffset(r.Bytes) != nil {
		t.Fatal("an offset beyond the end")
	}
}

func TestTypingIntoAProgramThatReadsNothingEnds(t *testing.T) {
	m := open(t.TempDir(), 1<<20)
	terminal := start(t, m, request("a", "/bin/sh", "-c", "stty raw -echo; echo ready; exec sleep 1000"))
	reader, writer := io.Pipe()
	go func() { _ = terminal.Send(t.Context(), writer, 0) }()
	if _, err := io.ReadFull(reader, make([]byte, wire.FrameHeader+5)); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, reader)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var err error
	for err == nil {
		err = terminal.Write(ctx, make([]byte, 64<<10))
	}
	if code(err) != "rate_limited/terminal_full" {
		t.Fatal(err)
	}
}

func TestFramesOfTheOtherSideAreObeyed(t *testing.T) {
	m := open(t.TempDir(), 1<<20)
	terminal := start(t, m, request("a", "/bin/sh", "-c", "read a; stty size"))
	frame := func(kind byte, data ...byte) []byte {
		head := make([]byte, wire.FrameHeader)
		head[0] = kind
		binary.BigEndian.PutUint32(head[4:], uint32(len(data)))
		return append(head, data...)
	}
	said := append(frame(wire.FrameResize, 0, 90, 0, 30), frame(wire.FrameInput, 'x', '\n')...)
	if err := terminal.Take(t.Context(), bytes.NewReader(said)); err != io.EOF {
		t.Fatal(err)
	}
	if data, _, _ := sent(t, terminal, 0); !strings.HasSuffix(data, "30 90\r\n") {
		t.Fatalf("%q", data)
	}
	for _, wrong := range [][]byte{frame(wire.FrameInput), frame(wire.FrameResize, 0, 1, 0), frame(wire.FrameStdout, 'x')} {
		if err := terminal.Take(t.Context(), bytes.NewReader(wrong)); err != errFrame {
			t.Fatal(err)
		}
	}
}

func FuzzFramesOfTheOtherSide(f *testing.F) {
	f.Add([]byte{16, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 'x'})
	f.Add([]byte{17, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 80, 0, 24})
	f.Add([]byte{16, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, said []byte) {
		r := bytes.NewReader(said)
		var buffer []byte
		for left := len(said); ; {
			kind, data, err := readFrame(r, &buffer)
			if err != nil {
				return
			}
			if left -= wire.FrameHeader + len(data); left != r.Len() {
				t.Fatalf("%d bytes are left, expected %d", r.Len(), left)
			}
			if kind != wire.FrameInput && kind != wire.FrameResize || len(data) == 0 || kind == wire.FrameResize && len(data) != 4 {
				t.Fatalf("kind %d with %d bytes", kind, len(data))
			}
		}
	})
}

func FuzzGroupOf(f *testing.F) {
	f.Add([]byte("12 (bash) S 1 12 12 0 0"))
	f.Add([]byte("12 (a) S 1 7 7) S 1 12 13 0"))
	f.Add([]byte("12 (\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		group, session, ok := groupOf(line)
		if ok && (group <= 1 || session <= 1) || !ok && group > 1 && session > 1 {
			t.Fatalf("%d %d %v", group, session, ok)
		}
	})
}
