package session

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/agent/output"
	"github.com/berth-dev/berth/machine/internal/agent/reap"
	"github.com/berth-dev/berth/machine/internal/agent/record"
	"github.com/berth-dev/berth/machine/internal/agent/spawn"
	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

type here struct{}

func (here) User(name string) (guestroot.User, bool, error) {
	return guestroot.User{Name: name, Home: "/"}, name == "me", nil
}

func (here) Start(c *spawn.Command) (spawn.Started, error) {
	in := c.Stdin
	if in < 0 {
		null, err := syscall.Open("/dev/null", syscall.O_RDONLY, 0)
		if err != nil {
			return spawn.Started{}, err
		}
		defer syscall.Close(null)
		in = null
	}
	pid, err := syscall.ForkExec(c.Argv[0], c.Argv, &syscall.ProcAttr{Dir: c.Cwd, Env: c.Env,
		Files: []uintptr{uintptr(in), uintptr(c.Stdout), uintptr(c.Stderr)}, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return spawn.Started{}, &spawn.StartError{Stage: spawn.StageExec, Errno: err.(syscall.Errno)}
	}
	c.Meanwhile()
	return spawn.Started{PID: pid, GuestPID: pid}, nil
}

var reaper = sync.OnceValue(reap.New)

func open(t *testing.T, dir string, limit int64) *Manager {
	t.Helper()
	return openIn(t, dir, limit, here{})
}

func openIn(t *testing.T, dir string, limit int64, guest Guest) *Manager {
	t.Helper()
	m, err := Open(dir, guest, reaper(), wire.GuestLimits{OutputBytes: limit})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func request(id, line string) wire.ExecRequest {
	return wire.ExecRequest{SessionID: id, Fingerprint: "f", Argv: []string{"/bin/sh", "-c", line}, Cwd: "/", User: "me"}
}

func withInput(r wire.ExecRequest, text string) wire.ExecRequest {
	r.StdinBase64 = base64.StdEncoding.EncodeToString([]byte(text))
	return r
}

func result(t *testing.T, s *Session) (stdout string, last []byte, kind byte) {
	t.Helper()
	var b bytes.Buffer
	f, err := NewFollower(s, output.NewFrameWriter(&b), func() error { return nil }, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := f.Run(ctx, true); err != nil {
		t.Fatal(err)
	}
	for rest := b.Bytes(); len(rest) > 0; {
		n := wire.FrameHeader + int(binary.BigEndian.Uint32(rest[4:]))
		kind, last = rest[0], rest[wire.FrameHeader:n]
		if kind == wire.FrameStdout {
			if at := int64(binary.BigEndian.Uint64(rest[8:])); at != int64(len(stdout)) {
				t.Fatalf("a frame at %d, expected %d", at, len(stdout))
			}
			stdout += string(last)
		}
		rest = rest[n:]
	}
	return stdout, last, kind
}

func TestOfManyCallersWithOneIDOneStarts(t *testing.T) {
	dir := t.TempDir()
	m := open(t, dir, 0)
	ran := filepath.Join(dir, "ran")
	var created sync.Map
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			_, mine, err := m.Start(request("one", "echo x >> "+ran))
			if err != nil {
				t.Error(err)
			}
			if mine {
				created.Store(i, true)
			}
		})
	}
	all.Wait()
	s, err := m.Get("one")
	if err != nil {
		t.Fatal(err)
	}
	result(t, s)
	n := 0
	created.Range(func(any, any) bool { n++; return true })
	if b, _ := os.ReadFile(ran); n != 1 || string(b) != "x\n" {
		t.Fatalf("%d created, ran %q", n, b)
	}
}

func TestAnotherRequestWithTheIDIsRefused(t *testing.T) {
	m := open(t, t.TempDir(), 0)
	if _, _, err := m.Start(request("a", "true")); err != nil {
		t.Fatal(err)
	}
	other := request("a", "true")
	other.Fingerprint = "g"
	var refusal *fail.Error
	if _, _, err := m.Start(other); !errors.As(err, &refusal) || refusal.Reason != "operation_id_reused" {
		t.Fatalf("%v", err)
	}
}

func awaitRecord(t *testing.T, s *Session) {
	t.Helper()
	for end := time.Now().Add(testns.Patience(10 * time.Second)); ; time.Sleep(time.Millisecond) {
		e, err := readRecord(s.dir, "")
		if err == nil && e.Record.State == record.Exited {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%+v %v", e, err)
		}
	}
}

func TestAnEarlierBootsSessionsAreReadAndNeverRunAgain(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, 0)
	s, _, err := first.Start(request("done", "echo out; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	result(t, s)
	awaitRecord(t, s) // the end is announced before it is on disk
	lost := filepath.Join(dir, dirName("lost"))
	log, err := record.Create(lost+recordSuffix, entry{Fingerprint: "f", Record: wire.ExecRecord{SessionID: "lost", State: record.Starting}})
	if err != nil {
		t.Fatal(err)
	}
	log.Close()
	if err := os.Mkdir(lost, 0o700); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(lost, "stdout.0"), []byte("half"), 0o600)

	second := open(t, dir, 0)
	for id, want := range map[string]string{"done": "exited", "lost": "lost"} {
		s, created, err := second.Start(request(id, "echo again > "+filepath.Join(dir, "again")))
		if err != nil || created || s.Record().State != want {
			t.Fatalf("%s: %v %v %+v", id, created, err, s)
		}
	}
	s, _ = second.Get("lost")
	if out, last, kind := result(t, s); out != "half" || kind != wire.FrameExit || !strings.Contains(string(last), `"lost"`) {
		t.Fatalf("%q %s", out, last)
	}
	s, _ = second.Get("done")
	if out, last, _ := result(t, s); out != "out\n" || !strings.Contains(string(last), `"exit_code":3`) {
		t.Fatalf("%q %s", out, last)
	}
	if _, err := os.Stat(filepath.Join(dir, "again")); err == nil {
		t.Fatal("it ran again")
	}
}

func TestATornFirstLineIsLost(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, dirName("torn"))+recordSuffix, []byte(`{"fingerprint":"f","rec`), 0o600)
	s, created, err := open(t, dir, 0).Start(request("torn", "true"))
	if err != nil || created || s.Record().State != record.Lost || s.Record().SessionID != "torn" || s.Record().Argv == nil {
		t.Fatalf("%v %v", created, err)
	}
}

func TestAFloodDoesNotTakeWhatAShortCommandSaid(t *testing.T) {
	m := open(t, t.TempDir(), 1<<20)
	short, _, err := m.Start(request("short", "echo here"))
	if err != nil {
		t.Fatal(err)
	}
	<-waitEnd(short)
	flood, _, err := m.Start(request("flood", "head -c 20000000 /dev/zero; exec sleep 100"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Cancel(flood)
	for {
		changed := flood.notice.Next()
		if r := flood.Record(); r.StdoutBytes == 20000000 && r.StdoutBytes-r.StdoutAvailable <= 1<<20 {
			break
		}
		<-changed
	}
	if out, _, kind := result(t, short); out != "here\n" || kind != wire.FrameExit {
		t.Fatalf("%q", out)
	}
}

func TestTheOldestEndedOutputGoesFirst(t *testing.T) {
	m := open(t, t.TempDir(), 1<<20)
	var all []*Session
	for i := range 8 {
		s, _, err := m.Start(request("s"+strconv.Itoa(i), "head -c 300000 /dev/zero"))
		if err != nil {
			t.Fatal(err)
		}
		<-waitEnd(s)
		all = append(all, s)
	}
	var total int64
	for i, s := range all {
		r := s.Record()
		kept := r.StdoutBytes - r.StdoutAvailable
		if r.StdoutBytes != 300000 || i < 4 && kept != 0 || i == 7 && kept != 300000 {
			t.Errorf("session %d: %+v", i, r)
		}
		total += kept
	}
	if total > 1<<20 {
		t.Fatalf("%d bytes retained", total)
	}
	if _, last, kind := result(t, all[0]); kind != wire.FrameError || !strings.Contains(string(last), "output_expired") {
		t.Fatalf("%d %s", kind, last)
	}
}

func TestARunningSessionKeepsItsLatestBytes(t *testing.T) {
	m := open(t, t.TempDir(), 1<<20)
	s, _, err := m.Start(request("yes", "yes | head -c 10000000"))
	if err != nil {
		t.Fatal(err)
	}
	<-waitEnd(s)
	r := s.Record()
	if r.StdoutBytes != 10000000 || r.StdoutBytes-r.StdoutAvailable > 1<<20 || r.StdoutBytes-r.StdoutAvailable < 1<<19 {
		t.Fatalf("%+v", r)
	}
}

func waitEnd(s *Session) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		for {
			next := s.notice.Next()
			if !s.running() {
				close(done)
				return
			}
			<-next
		}
	}()
	return done
}

func TestAFollowerSeesOutputAtOnce(t *testing.T) {
	m := open(t, t.TempDir(), 0)
	s, _, err := m.Start(request("live", "read x; echo $x; read y"))
	if err != nil {
		t.Fatal(err)
	}
	<-waitEnd(s) // stdin is /dev/null: both reads end
	out, last, _ := result(t, s)
	var r wire.ExecRecord
	if err := json.Unmarshal(last, &r); err != nil || out != "\n" || r.StdoutBytes != 1 || r.EndedAt == nil {
		t.Fatalf("%q %+v %v", out, r, err)
	}
}

func TestAServiceOfTheTemplateIsNoActivity(t *testing.T) {
	m := open(t, t.TempDir(), 0)
	s, _, err := m.Start(request("sfstart.web.1", "sleep 60"))
	if err != nil {
		t.Fatal(err)
	}
	if a := m.Activity(); a.RunningSessions != 0 || a.BusyUntil != nil || len(a.Commands) != 0 {
		t.Fatalf("%+v", a)
	}
	m.Cancel(s)
	<-waitEnd(s)
}

func TestActivityCountsWhatRuns(t *testing.T) {
	m := open(t, t.TempDir(), 0)
	if a := m.Activity(); a.RunningSessions != 0 || a.BusyUntil != nil || a.LastEndedAt != nil || len(a.Commands) != 0 {
		t.Fatalf("%+v", a)
	}
	req := request("busy", "sleep 60")
	req.TimeoutMS = 7200_000
	s, _, err := m.Start(req)
	if err != nil {
		t.Fatal(err)
	}
	a := m.Activity()
	until, err := time.Parse(time.RFC3339, *a.BusyUntil)
	if err != nil || a.RunningSessions != 1 || time.Until(until) < 119*time.Minute || time.Until(until) > 121*time.Minute {
		t.Fatalf("%+v %v", a, err)
	}
	if len(a.Commands) != 1 || a.Commands[0].SessionID != "busy" || *a.Commands[0].BusyUntil != *a.BusyUntil ||
		*a.Commands[0].StartedAt != *s.Record().StartedAt {
		t.Fatalf("%+v", a.Commands)
	}
	m.Cancel(s)
	<-waitEnd(s)
	for a = m.Activity(); a.RunningSessions != 0; a = m.Activity() { // uncounted right after the end is announced
		runtime.Gosched()
	}
	if a.LastEndedAt == nil || *a.LastEndedAt < *s.Record().EndedAt || len(a.Commands) != 0 {
		t.Fatalf("%+v", a)
	}
}
