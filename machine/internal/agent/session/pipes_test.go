package session

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/record"
	"github.com/berth-dev/berth/machine/internal/agent/spawn"
	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// refusing reports a dead guest init for the first `times` starts.
type refusing struct {
	here
	times int
}

func (r *refusing) Start(c *spawn.Command) (spawn.Started, error) {
	if r.times == 0 {
		return r.here.Start(c)
	}
	r.times--
	c.Meanwhile()
	return spawn.Started{}, spawn.ErrRefused
}

func TestAStartThatTheGuestRefusedIsTriedAgainOnce(t *testing.T) {
	guest := &refusing{times: 1}
	m := openIn(t, t.TempDir(), 0, guest)
	s, _, err := m.Start(withInput(request("again", "cat; echo $?"), "given"))
	if err != nil {
		t.Fatal(err)
	}
	if stdout, _, kind := result(t, s); stdout != "given0\n" || kind != wire.FrameExit {
		t.Fatalf("%q, %d", stdout, kind)
	}
	guest.times = 2
	s, _, err = m.Start(request("given-up", "true"))
	if err != nil || s.Record().State != record.Failed {
		t.Fatalf("%+v, %v", s.Record(), err)
	}
	if s, _, err = m.Start(request("after", "echo on")); err != nil {
		t.Fatal(err)
	}
	if stdout, _, _ := result(t, s); stdout != "on\n" {
		t.Fatalf("%q", stdout)
	}
}

func TestCommandsHoldNothingWhenTheyHaveEnded(t *testing.T) {
	m := open(t, t.TempDir(), 0)
	run := func(id string) {
		s, _, err := m.Start(withInput(request(id, "echo out; echo err >&2"), "in"))
		if err != nil {
			t.Fatal(err)
		}
		if stdout, _, _ := result(t, s); stdout != "out\n" {
			t.Fatalf("%q", stdout)
		}
		awaitRecord(t, s)
	}
	run("first") // spare pipes are ready from now on
	before := descriptors(t)
	for i := range 20 {
		run(strconv.Itoa(i))
	}
	for end := time.Now().Add(testns.Patience(10 * time.Second)); descriptors(t) > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d descriptors, %d before", descriptors(t), before)
		}
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
