package slottest

import (
	"strings"
	"sync"
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestAUserWhoStopsStartsHarmsNothingElse(t *testing.T) {
	s := newSlot(t, "").start().claim("a")
	neighbour := s.exec(wire.ExecRequest{User: "root", Argv: []string{"sh", "-c", "echo ready; until [ -e /root/ask ]; do sleep 0.1; done; echo unharmed"}})
	s.awaitOutput(neighbour)
	// The stopper hits processes after they have dropped root, mostly before their execve.
	stopper := s.exec(wire.ExecRequest{User: "user", Argv: []string{"bash", "-c", "echo ready; while :; do kill -STOP -1; done"}})
	s.awaitOutput(stopper)
	stopped := 0
	for round := 0; stopped < 3; round++ {
		if round == 20 {
			t.Fatalf("of %d starts only %d were stopped", 4*round, stopped)
		}
		ids := make([]string, 4)
		var starts sync.WaitGroup
		for i := range ids {
			starts.Go(func() { ids[i] = s.exec(wire.ExecRequest{User: "user", Argv: []string{"true"}}) })
		}
		starts.Wait()
		for _, id := range ids {
			var r wire.ExecRecord
			s.expect(200, "GET", "/exec/"+id, nil, &r)
			if r.State == "failed_to_start" && r.Error != nil && strings.Contains(*r.Error, "stopped") {
				stopped++
			} else if r.State != "running" && r.State != "exited" {
				t.Fatalf("%+v %v", r, r.Error)
			}
		}
		if o := s.sh("root", "echo another"); o.stdout != "another\n" {
			t.Fatalf("%+v", o)
		}
	}
	s.expect(200, "POST", "/exec/"+stopper+"/cancel", nil, nil)
	s.await(stopper)
	if o := s.sh("user", "echo begins"); o.stdout != "begins\n" {
		t.Fatalf("%+v", o)
	}
	s.sh("root", "touch /root/ask")
	if o := s.follow(neighbour, ""); o.stdout != "ready\nunharmed\n" {
		t.Fatalf("%+v", o)
	}
}
