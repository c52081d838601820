package slottest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestKeysOfOtherIncarnationsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSlot(t, "").start()
	s.expect(401, "GET", "/activity", nil, nil)
	s.claim("a")
	good := s.key
	for _, c := range []struct {
		key   string
		epoch int64
	}{{slotKey, 0}, {slotKey, 1}, {good, 0}, {good, 2}, {good + "x", 1}, {"", 1}} {
		s.key, s.epoch = c.key, c.epoch
		s.expect(401, "GET", "/activity", nil, nil)
		s.expect(401, "POST", "/exec", wire.ExecRequest{SessionID: "x", Argv: []string{"true"}}, nil)
	}
	s.key, s.epoch = slotKey, 0
	s.expect(200, "POST", "/claim", wire.ClaimRequest{Incarnation: s.incarnation("a", 1)}, nil)
	s.expect(409, "POST", "/claim", wire.ClaimRequest{Incarnation: s.incarnation("b", 1)}, nil)
	s.key, s.epoch = good, 1
	s.expect(200, "GET", "/activity", nil, nil)
}

func TestTheGuestCannotCallItsAgentNorTakeItsPort(t *testing.T) {
	t.Parallel()
	s := newSlot(t, "").start().claim("a")
	for _, host := range []string{"127.0.0.1", s.address, "0.0.0.0"} {
		call := fmt.Sprintf(`curl -s -m 3 -o /dev/null -w '%%{http_code}' -H 'Authorization: Bearer %s' -H 'X-Berth-Epoch: 1' http://%s:%d/activity`, s.key, host, wire.AgentPort)
		if o := s.sh("root", call); o.stdout != "000" {
			t.Errorf("%s answered %q", host, o.stdout)
		}
	}
	bind := `import socket
for a in ("0.0.0.0", "%s"):
    for o in ((), (socket.SO_REUSEADDR,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT)):
        s = socket.socket()
        for x in o: s.setsockopt(socket.SOL_SOCKET, x, 1)
        try:
            s.bind((a, %d)); s.listen(); print("bound", a, o)
        except OSError: pass`
	id := s.exec(wire.ExecRequest{Argv: []string{"python3", "-c", fmt.Sprintf(bind, s.address, wire.AgentPort)}, User: "root"})
	if o := s.follow(id, ""); o.stdout != "" || o.stderr != "" {
		t.Fatalf("%q %q", o.stdout, o.stderr)
	}
}

func TestKillingInitOrEverythingLeavesTheAgentServing(t *testing.T) {
	t.Parallel()
	s := newSlot(t, "").start().claim("a")
	s.sh("root", "kill -9 -1")
	if o := s.sh("user", "echo on"); o.stdout != "on\n" {
		t.Fatalf("after kill -1: %+v", o)
	}
	sleeper := s.exec(wire.ExecRequest{Argv: []string{"sleep", "1000"}})
	s.sh("root", "kill -9 1")
	if r := s.follow(sleeper, "").record; *r.TermSignal != "SIGKILL" {
		t.Fatalf("%+v", r)
	}
	for range 3 {
		if o := s.sh("user", "echo again; cat /proc/1/comm; ls /dev/null /proc/self/stat /tmp"); !strings.HasPrefix(o.stdout, "again\ninit\n") {
			t.Fatalf("after kill 1: %+v %v", o, o.record.Error)
		}
	}
	s.expect(200, "PUT", "/files?path=/tmp/x", []byte("seen"), nil)
	if o := s.sh("user", "cat /tmp/x; umount -l / 2>/dev/null; echo still"); o.stdout != "seenstill\n" {
		t.Fatalf("%+v", o)
	}
	s.sh("root", "umount -l /; umount -l /proc; true")
	s.expect(200, "GET", "/activity", nil, nil)
}

func TestARunawayAllocatorIsEndedAndTheMachineLives(t *testing.T) {
	s := newSlot(t, "").start().claim("a")
	keeper := s.exec(wire.ExecRequest{Argv: []string{"sleep", "1000"}})
	for range testns.Depth(1, 3) {
		o := s.follow(s.exec(wire.ExecRequest{Argv: []string{"python3", "-c", "b = bytearray(2 << 30)"}}), "")
		if o.record.TermSignal == nil || *o.record.TermSignal != "SIGKILL" {
			t.Fatalf("%+v %q", o.record, o.stderr)
		}
	}
	var r wire.ExecRecord
	if s.expect(200, "GET", "/exec/"+keeper, nil, &r); r.State != "running" {
		t.Fatalf("the innocent process: %+v", r)
	}
	files := strings.Repeat("/home/user/big ", testns.Depth(1, 2))
	s.sh("user", "dd if=/dev/zero of=/home/user/big bs=1M count=700; cat "+files+"> /dev/null")
	if s.expect(200, "GET", "/exec/"+keeper, nil, &r); r.State != "running" {
		t.Fatalf("page cache ended a process: %+v", r)
	}
}

func TestAForkBombIsEnded(t *testing.T) {
	s := newSlot(t, "").start().claim("a")
	for _, user := range []string{"user", "root"} {
		id := s.exec(wire.ExecRequest{Argv: []string{"sh", "-c", "b() { sleep 1000 & b & b; }; b"}, User: user, TimeoutMS: 60_000, KillGraceMS: 500})
		var r wire.ExecRecord
		for s.expect(200, "GET", "/exec/"+id, nil, &r); r.State == "running" && r.StderrBytes == 0; time.Sleep(20 * time.Millisecond) {
			s.expect(200, "GET", "/exec/"+id, nil, &r)
		}
		if _, _, err := s.try("POST", "/exec/"+id+"/cancel", nil); err != nil { // the command may have ended
			t.Fatal(err)
		}
		if o := s.follow(id, ""); !strings.Contains(o.stderr, "fork") {
			t.Fatalf("%s: it ended before the limit: %+v %q", user, o.record, o.stderr)
		}
		for end := time.Now().Add(testns.Patience(time.Minute)); ; {
			o := s.sh("root", "pkill -9 sleep; ls /sys/fs/cgroup; echo on")
			if o.stdout == "on\n" {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %+v", user, o)
			}
		}
	}
}

func TestSessionsOutliveTheMachine(t *testing.T) {
	t.Parallel()
	first := newSlot(t, "").start().claim("a")
	done := first.exec(wire.ExecRequest{Argv: []string{"sh", "-c", "echo kept; exit 3"}})
	first.follow(done, "")
	running := first.exec(wire.ExecRequest{SessionID: "unfinished", Argv: []string{"sh", "-c", "echo begun; sleep 1000"}})
	first.awaitOutput(running)
	first.stop()
	second := newSlot(t, first.disk).start().claim("a")
	if o := second.follow(done, ""); o.stdout != "kept\n" || *o.record.ExitCode != 3 {
		t.Fatalf("%+v", o)
	}
	o := second.follow(running, "")
	if o.stdout != "begun\n" || o.record.State != "lost" || o.record.ExitCode != nil {
		t.Fatalf("%+v", o)
	}
	var r wire.ExecRecord
	second.expect(200, "POST", "/exec", wire.ExecRequest{SessionID: "unfinished", Fingerprint: "f", Argv: []string{"true"}, Cwd: "/"}, &r)
	if r.State != "lost" {
		t.Fatalf("ran again: %+v", r)
	}
}

func TestACheckpointRestoresCommandsOutputAndANewIncarnation(t *testing.T) {
	t.Parallel()
	first := newSlot(t, "").start().claim("a")
	id := first.exec(wire.ExecRequest{Argv: []string{"sh", "-c", "i=0; while :; do echo $i; i=$((i+1)); sleep 0.05; done"}, TimeoutMS: 10000})
	before := first.sh("root", "mkdir -p /etc/ssh; touch /etc/ssh/ssh_host_rsa_key; cat /etc/machine-id").stdout
	first.awaitOutput(id)
	counted := len(strings.Fields(first.follow(id, "?follow=false").stdout))
	image := first.join("image")
	must(t, os.MkdirAll(image, 0o700))
	must(t, first.runsc("pause", first.name))
	must(t, first.runsc("checkpoint", "--leave-running", "--image-path", image, first.name))
	must(t, first.runsc("resume", first.name))
	first.stop()

	second := newSlot(t, first.disk)
	second.mountClaim()
	in := second.incarnation("b", 1)
	in.RenewIdentity = true
	second.writeIncarnation(in)
	must(t, second.runsc("create", "--bundle", second.join("bundle"), second.name))
	must(t, second.runsc("restore", "--detach", "--image-path", image, "--bundle", second.join("bundle"), second.name))
	second.awaitAgent()
	second.key, second.epoch = first.key, first.epoch
	second.key, second.epoch = in.Key, in.Epoch
	var got wire.Incarnation
	second.expect(200, "GET", "/incarnation", nil, &got)
	if got.WorkspaceID != "b" || got.Key != "" {
		t.Fatalf("%+v", got)
	}
	second.key, second.epoch = first.key, first.epoch
	second.expect(401, "GET", "/activity", nil, nil)
	second.key, second.epoch = in.Key, in.Epoch
	o := second.follow(id, "")
	lines := strings.Fields(o.stdout)
	for i, line := range lines {
		if line != fmt.Sprint(i) {
			t.Fatalf("line %d is %q", i, line)
		}
	}
	if !o.record.TimedOut || len(lines) < counted+10 {
		t.Fatalf("%d lines, then %d, %+v", counted, len(lines), o.record)
	}
	if o := second.sh("root", "hostname; cat /etc/hostname; ls /etc/ssh; cat /etc/machine-id"); !strings.HasPrefix(o.stdout, "box-b\nbox-b\n") ||
		strings.Contains(o.stdout, before) || strings.Contains(o.stdout, "ssh_host") {
		t.Fatalf("before %q, after %q", before, o.stdout)
	}
}

func TestYesWithoutReaderAndWithSlowReadersCostsNoMemory(t *testing.T) {
	s := newSlot(t, "").start().claim("a")
	// Without /tmp/go, the first bytes could be evicted before the last reader connects.
	id := s.exec(wire.ExecRequest{Argv: []string{"sh", "-c", "while [ ! -e /tmp/go ]; do sleep 0.05; done; exec yes"}, TimeoutMS: 180_000})
	slow := make([]*http.Response, 10)
	for i := range slow {
		var err error
		slow[i], err = s.request("GET", "/exec/"+id+"/output", nil)
		must(t, err)
		defer slow[i].Body.Close()
	}
	s.sh("root", "touch /tmp/go")
	for i := range slow {
		_, err := io.ReadFull(slow[i].Body, make([]byte, 1))
		must(t, err)
	}
	said := testns.Depth[int64](100<<20, 1000<<20)
	var r wire.ExecRecord
	for end := time.Now().Add(2 * time.Minute); r.StdoutBytes < said && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		s.expect(200, "GET", "/exec/"+id, nil, &r)
	}
	// The guest cannot see the agent, so the test reads the machine's whole memory.
	o := s.sh("root", `awk '/MemTotal|MemFree|^Cached/ {print $2}' /proc/meminfo`)
	t.Logf("meminfo %q", o.stdout)
	if r.StdoutBytes < said || r.State != "running" {
		t.Fatalf("%+v", r)
	}
	s.expect(200, "POST", "/exec/"+id+"/cancel", nil, nil)
}

func TestVolumesAppearInTheGuest(t *testing.T) {
	t.Parallel()
	s := newSlot(t, "")
	must(t, os.WriteFile(s.join("vol", "before"), nil, 0o644))
	s.start().claim("a")
	must(t, os.MkdirAll(s.join("other"), 0o755))
	must(t, os.WriteFile(s.join("other", "inside"), nil, 0o644))
	must(t, os.MkdirAll(s.join("vol", "mnt"), 0o755))
	must(t, unix.Mount(s.join("other"), s.join("vol", "mnt"), "", unix.MS_BIND, ""))
	if o := s.sh("root", "ls /volumes /volumes/mnt"); !strings.Contains(o.stdout, "before") || !strings.Contains(o.stdout, "inside") {
		t.Fatalf("%q %q", o.stdout, o.stderr)
	}
}

func TestATemplateCannotSendTheMountsElsewhere(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(disk, "upper"), 0o755))
	for _, name := range []string{"proc", "dev", "tmp", "sys"} {
		must(t, os.Symlink("/inc", filepath.Join(disk, "upper", name)))
	}
	s := newSlot(t, disk).start().claim("a")
	if o := s.sh("root", "ls -d /proc/self /dev/null /sys/devices; ls /inc; test -L /proc || echo real"); o.stdout != "/dev/null\n/proc/self\n/sys/devices\nreal\n" {
		t.Fatalf("%q %q", o.stdout, o.stderr)
	}
}
