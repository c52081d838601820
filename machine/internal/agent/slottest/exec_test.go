package slottest

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestACommandRunsInsideAsItsUser(t *testing.T) {
	t.Parallel()
	s := newSlot(t, "").start().claim("a")
	o := s.sh("user", `id -un; id -gn; pwd; hostname; cat /etc/hostname /proc/1/comm; echo $HOME $USER $SHELL; ls /proc/self/fd | wc -l; echo err >&2`)
	// The count of open files includes the directory of ls.
	want := "user\nuser\n/\nbox-a\nbox-a\ninit\n/home/user user /bin/bash\n4\n"
	if o.stdout != want || o.stderr != "err\n" || *o.record.ExitCode != 0 {
		t.Fatalf("got %q %q %+v", o.stdout, o.stderr, o.record)
	}
	o = s.sh("root", `id -u; echo $$; ls /; ls /claim /agent /inc; mount | grep -c claim; sudo -u user id -un`)
	if !strings.HasPrefix(o.stdout, "0\n"+strconv.Itoa(*o.record.PID)+"\n") || strings.Contains(o.stdout, "agent") {
		t.Fatalf("pid %d, got %q", *o.record.PID, o.stdout)
	}
}

func TestWhatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	s := newSlot(t, "").start().claim("a")
	cases := map[string]wire.ExecRequest{
		"not found":         {Argv: []string{"no-such-program"}},
		"/nowhere":          {Argv: []string{"true"}, Cwd: "/nowhere"},
		"not a directory":   {Argv: []string{"true"}, Cwd: "/etc/passwd"},
		"permission denied": {Argv: []string{"true"}, Cwd: "/root", User: "user"},
		"nobody-here":       {Argv: []string{"true"}, User: "nobody-here"},
		"executable format": {Argv: []string{"/home/user/text"}},
		"too long":          {Argv: []string{"true", strings.Repeat("x", 200<<10)}},
		"proc/self/fd":      {Argv: []string{"true"}, Cwd: "/proc/self/fd/5"},
	}
	s.expect(200, "PUT", "/files?path=/home/user/text&mode=0755", []byte("\x7fnonsense"), nil)
	for cause, req := range cases {
		id := s.exec(req)
		o := s.follow(id, "")
		r := o.record
		if r.State != "failed_to_start" || r.Error == nil || !strings.Contains(*r.Error, cause) || r.PID != nil || r.ExitCode != nil || o.stdout+o.stderr != "" {
			t.Errorf("%s: %+v %v", cause, r, r.Error)
		}
	}
}

func TestTheSameIDRunsOnce(t *testing.T) {
	t.Parallel()
	s := newSlot(t, "").start().claim("a")
	req := wire.ExecRequest{SessionID: "once", Fingerprint: "f", Argv: []string{"sh", "-c", "echo x >> /home/user/ran"}, Cwd: "/"}
	s.expect(201, "POST", "/exec", req, nil)
	s.follow("once", "")
	s.expect(200, "POST", "/exec", req, nil)
	req.Fingerprint = "g"
	var refusal wire.AgentError
	s.expect(409, "POST", "/exec", req, &refusal)
	if refusal.Reason != "operation_id_reused" {
		t.Fatalf("%+v", refusal)
	}
	if o := s.sh("user", "cat /home/user/ran"); o.stdout != "x\n" {
		t.Fatalf("ran %q", o.stdout)
	}
	s.expect(404, "GET", "/exec/never", nil, nil)
}

func TestTimeoutAndCancelReachTheWholeGroup(t *testing.T) {
	t.Parallel()
	s := newSlot(t, "").start().claim("a")
	// The leader exits on SIGTERM, and its child must be killed. The setsid process keeps running.
	line := `trap 'exit 7' TERM; (trap '' TERM; exec sleep 1000) & setsid sleep 2000 & wait`
	id := s.exec(wire.ExecRequest{Argv: []string{"sh", "-c", line}, TimeoutMS: 5000, KillGraceMS: 300}) // enough time for all to start
	if r := s.follow(id, "").record; !r.TimedOut || *r.ExitCode != 7 {
		t.Fatalf("%+v", r)
	}
	gone := "for i in $(seq 300); do pgrep -f '^sleep 1000' >/dev/null || break; sleep 0.1; done; pgrep -fa '^sleep'"
	if o := s.sh("root", gone); strings.Contains(o.stdout, "sleep 1000") || !strings.Contains(o.stdout, "sleep 2000") {
		t.Fatalf("left: %q", o.stdout)
	}
	id = s.exec(wire.ExecRequest{Argv: []string{"sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"}, KillGraceMS: 200})
	s.awaitOutput(id)
	s.expect(200, "POST", "/exec/"+id+"/cancel", nil, nil)
	if r := s.follow(id, "").record; r.TimedOut || *r.ExitCode != -1 || *r.TermSignal != "SIGKILL" {
		t.Fatalf("%+v", r)
	}
	id = s.exec(wire.ExecRequest{Argv: []string{"sleep", "1000"}})
	s.expect(422, "POST", "/exec/"+id+"/signal", map[string]string{"signal": "TERM"}, nil)
	s.expect(200, "POST", "/exec/"+id+"/signal", map[string]string{"signal": "SIGUSR1"}, nil)
	if r := s.follow(id, "").record; *r.TermSignal != "SIGUSR1" {
		t.Fatalf("%+v", r)
	}
	s.expect(409, "POST", "/exec/"+id+"/signal", map[string]string{"signal": "SIGUSR1"}, nil)
}

func TestABackgroundProcessHoldsUpNothingAndLivesOn(t *testing.T) {
	t.Parallel()
	s := newSlot(t, "").start().claim("a")
	o := s.sh("user", `(until [ -e /home/user/go ]; do sleep 0.05; done; echo late; echo done > /home/user/alive) & echo hi`)
	if o.stdout != "hi\n" {
		t.Fatalf("%q", o.stdout)
	}
	if o := s.sh("user", "touch /home/user/go; for i in $(seq 300); do [ -s /home/user/alive ] && break; sleep 0.1; done; cat /home/user/alive"); o.stdout != "done\n" {
		t.Fatalf("the background process died: %q", o.stderr)
	}
}

func TestStdinIsGivenAndClosed(t *testing.T) {
	t.Parallel()
	s := newSlot(t, "").start().claim("a")
	data := strings.Repeat("0123456789abcdef", 1<<16)
	stdin := base64.StdEncoding.EncodeToString([]byte(data))
	o := s.follow(s.exec(wire.ExecRequest{Argv: []string{"cat"}, StdinBase64: stdin}), "")
	if o.stdout != data {
		t.Fatalf("%d bytes came back of %d", len(o.stdout), len(data))
	}
	s.expect(413, "POST", "/exec", wire.ExecRequest{SessionID: "big", Argv: []string{"cat"}, Cwd: "/",
		StdinBase64: base64.StdEncoding.EncodeToString(make([]byte, 1<<20+1))}, nil)
}

func TestOutputIsBoundedAndItsOffsetsGrow(t *testing.T) {
	t.Parallel()
	s := newSlot(t, "").start().claim("a")
	const said = outputBytes + 8<<20
	id := s.exec(wire.ExecRequest{Argv: []string{"head", "-c", strconv.Itoa(said), "/dev/zero"}})
	r := s.await(id)
	if r.StdoutBytes != said || r.StdoutAvailable < said-outputBytes-2<<20 || r.StdoutAvailable > r.StdoutBytes {
		t.Fatalf("%+v", r)
	}
	if o := s.follow(id, ""); o.refusal == nil || o.refusal.Reason != "output_expired" || o.refusal.Details["available_from"] != float64(r.StdoutAvailable) {
		t.Fatalf("%+v", o.refusal)
	}
	if o := s.follow(id, "?stdout_offset="+strconv.Itoa(int(r.StdoutAvailable))); int64(len(o.stdout)) != r.StdoutBytes-r.StdoutAvailable {
		t.Fatalf("%d bytes", len(o.stdout))
	}
	s.expect(400, "GET", "/exec/"+id+"/output?stdout_offset="+strconv.Itoa(said+1), nil, nil)
	files, _ := filepath.Glob(filepath.Join(s.disk, "state/exec/*/std*"))
	var total int64
	for _, f := range files {
		info, err := os.Stat(f)
		must(t, err)
		total += info.Size()
	}
	if total > outputBytes {
		t.Fatalf("%d bytes on disk", total)
	}
}
