package slottest

import (
	"os"
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// The agent sees the guest's mounts from another mount namespace, where the kernel takes them away without a word.
func TestMountPointsAreNeitherRemovedNorMoved(t *testing.T) {
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
