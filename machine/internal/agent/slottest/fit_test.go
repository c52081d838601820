package slottest

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestAFittedSlotIsClaimedAsAnyOther(t *testing.T) {
	t.Parallel()
	const look = `hostname; cat /etc/hostname /etc/hosts /etc/resolv.conf; stat -c '%a %U %h' /etc/hostname /etc/hosts /etc/resolv.conf /etc/machine-id
ls /; cat /proc/mounts | cut -d' ' -f2,3 | sort; nproc; cat /proc/1/comm; ls -A /home/user /tmp /volumes`
	plain := newSlot(t, "").start().claim("a").sh("user", look)
	s := newSlot(t, "").start()
	s.mountClaim()
	in := s.incarnation("a", 1)
	for range 2 { // fit is idempotent
		s.expect(200, "POST", "/fit", wire.FitRequest{Incarnation: wire.Incarnation{Nameserver: in.Nameserver, Limits: &wire.GuestLimits{Processes: 200}}}, nil)
	}
	s.expect(401, "POST", "/exec", wire.ExecRequest{SessionID: "x", Argv: []string{"true"}}, nil) // not claimed yet
	s.expect(200, "POST", "/claim", wire.ClaimRequest{Incarnation: in}, nil)
	s.expect(409, "POST", "/fit", wire.FitRequest{}, nil)
	s.key, s.epoch = in.Key, 1
	if fitted := s.sh("user", look); fitted.stdout != plain.stdout || fitted.stderr != plain.stderr {
		t.Fatalf("a fitted machine is\n%q%q\na plain one\n%q%q", fitted.stdout, fitted.stderr, plain.stdout, plain.stderr)
	}
	id := strings.TrimSpace(s.sh("user", "cat /etc/machine-id").stdout)
	if len(id) != 32 {
		t.Fatalf("the machine-id is %q", id)
	}
	if o := s.sh("user", `bash -c 'for i in $(seq 250); do sleep 20 & done; jobs -r | wc -l; kill $(jobs -p)'`); o.stdout != "250\n" {
		t.Fatalf("%+v", o)
	}
	disk := s.disk
	s.stop()
	again := newSlot(t, disk).start().claim("a")
	if got := strings.TrimSpace(again.sh("user", "cat /etc/machine-id").stdout); got != id {
		t.Fatalf("the machine-id was %s and is %s", id, got)
	}
}

func TestASlotWithoutADiskCannotBeFitted(t *testing.T) {
	t.Parallel()
	s := newSlot(t, "").start()
	s.expect(401, "GET", "/activity", nil, nil)
	s.expect(500, "POST", "/fit", wire.FitRequest{}, nil)
	s.key = slotKey + "x"
	s.expect(401, "POST", "/fit", wire.FitRequest{}, nil)
}
