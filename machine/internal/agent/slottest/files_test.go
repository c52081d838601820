package slottest

import (
	"os"
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// The agent must refuse: the kernel would silently detach mounts of another mount namespace.
func TestMountPointsAreNeitherRemovedNorMoved(t *testing.T) {
	t.Parallel()
	s := newSlot(t, "")
	must(t, os.WriteFile(s.join("vol", "before"), nil, 0o644))
	s.start().claim("a")
	if o := s.sh("root", "mkdir -p /home/d/m && mount -t tmpfs none /home/d/m && touch /home/d/m/kept"); o.stderr != "" {
		t.Fatal(o.stderr)
	}
	busy := func(method, path string, body any) {
		t.Helper()
		var refusal wire.AgentError
		s.expect(409, method, path, body, &refusal)
		if refusal.Code != "conflict" || refusal.Reason != "path_busy" {
			t.Errorf("%s %s: %+v", method, path, refusal)
		}
	}
	s.expect(201, "POST", "/files/mkdir", wire.MkdirRequest{Path: "/home/new"}, nil)
	for _, path := range []string{"/tmp", "/dev", "/proc", "/sys", "/volumes", "/dev/shm", "/dev/pts", "/home/d/m"} {
		busy("DELETE", "/files?path="+path, nil)
		busy("DELETE", "/files?recursive=true&path="+path, nil)
		busy("POST", "/files/move", wire.MoveRequest{From: path, To: "/home/taken"})
		busy("POST", "/files/move", wire.MoveRequest{From: "/home/new", To: path, Overwrite: true})
	}
	busy("DELETE", "/files?recursive=true&path=/home/d", nil)
	o := s.sh("root", "ls /home/d/m /volumes; touch /tmp/x && test -e /proc/self/stat && test -c /dev/null && test -d /sys/fs && echo works")
	if o.stdout != "/home/d/m:\nkept\n\n/volumes:\nbefore\nworks\n" {
		t.Fatalf("%q %q", o.stdout, o.stderr)
	}
	s.expect(200, "POST", "/files/move", wire.MoveRequest{From: "/home/new", To: "/home/moved"}, nil)
	s.expect(204, "DELETE", "/files?path=/home/moved", nil, nil)
}

func TestAMoveToAnotherFileSystemIsWhatMvDoes(t *testing.T) {
	t.Parallel()
	s := newSlot(t, "").start().claim("a")
	o := s.sh("root", `cd /tmp && head -c 3000000 /dev/urandom >f && chmod 4750 f && chown 1234:4321 f && touch -hd 2001-02-03T04:05:06Z f &&
ln -s nowhere l && chown -h 1234:4321 l && touch -hd 2001-02-03T04:05:06Z l && mkdir d && mkfifo p && mkdir -p /home/m/d && echo old >/home/m/old && stat -c '%F %a %u %g %y' f l && sha256sum <f`)
	move := func(status int, from, to string, overwrite bool) (refusal wire.AgentError) {
		t.Helper()
		s.expect(status, "POST", "/files/move", wire.MoveRequest{From: from, To: to, Overwrite: overwrite}, &refusal)
		return refusal
	}
	for from, reason := range map[string]string{"/tmp/f": "already_exists", "/tmp/l": "already_exists", "/tmp/d": "different_filesystem", "/tmp/p": "already_exists"} {
		if got := move(409, from, "/home/m/old", false); got.Reason != reason {
			t.Errorf("%s: %+v", from, got)
		}
	}
	if got := move(409, "/tmp/f", "/home/m/d", true); got.Reason != "not_a_file" {
		t.Errorf("onto a directory: %+v", got)
	}
	if got := move(409, "/tmp/p", "/home/m/p", false); got.Reason != "different_filesystem" {
		t.Errorf("a pipe: %+v", got)
	}
	move(200, "/tmp/f", "/home/m/old", true)
	move(200, "/tmp/l", "/home/m/l", false)
	back := s.sh("root", `cd /home/m && stat -c '%F %a %u %g %y' old l && sha256sum <old && ls -A . /tmp`)
	if want := o.stdout + ".:\nd\nl\nold\n\n/tmp:\nd\np\n"; o.stdout == "" || back.stdout != want {
		t.Fatalf("%q %q, expected %q", back.stdout, back.stderr, want)
	}
	move(200, "/home/m/old", "/dev/shm/f", false)
	s.expect(404, "GET", "/files/stat?path=/home/m/old", nil, nil)
}
