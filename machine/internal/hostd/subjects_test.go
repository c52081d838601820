package hostd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestMachinesOfOtherKindsLiveBesideAWorkspaceWithTheSameID(t *testing.T) {
	d := newDaemon(t, nil)
	id := newID()
	workspace := d.startMachine(id, 1)
	execution := wire.Subject{Kind: wire.KindExecution, ID: id}.Owner()
	own := d.startMachine(execution, 1)
	if own.Subject != wire.SubjectOf(execution) || own.Slot == workspace.Slot {
		t.Fatalf("the execution's machine is %+v", own)
	}
	d.run(workspace, "echo workspace > /home/file")
	d.run(own, "echo execution > /home/file; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")

	d.kill()
	d.start()
	for owner, want := range map[string]string{id: "workspace", execution: "execution"} {
		m := d.machineOf(owner)
		if m == nil {
			t.Fatalf("the machine of the %s is not adopted", want)
		}
		if text := d.run(*m, "cat /home/file"); text != want {
			t.Errorf("the machine of the %s has the file of the %s", want, text)
		}
	}
	for _, name := range []string{id, execution} {
		if _, err := os.Stat(filepath.Join(d.dir, "data/fences", name)); err != nil {
			t.Errorf("the fence of %s: %v", name, err)
		}
		if _, err := os.Stat(d.seenByHostd("pool/ws", name, "disks")); err != nil {
			t.Errorf("the disks of %s: %v", name, err)
		}
	}

	saved := newID()
	info := d.checkpoint(own, saved, "paused")
	if info.Subject != own.Subject || info.Counters == nil || info.Counters.Fence != own.Fence || info.Counters.CPUUsec == 0 {
		t.Fatalf("the checkpoint is %+v, its counters %+v", info, info.Counters)
	}
	last := d.ended("/machines/stop", wire.StopRequest{Fence: d.fence(execution, 1)})
	if last == nil || last.Subject != own.Subject || last.Fence != own.Fence || last.CPUUsec < info.Counters.CPUUsec || last.MemoryBytes == 0 || last.RanMS < info.Counters.RanMS {
		t.Fatalf("the last counters are %+v, those of the checkpoint %+v", last, info.Counters)
	}
	if again := d.ended("/machines/stop", wire.StopRequest{Fence: d.fence(execution, 1)}); again == nil || *again != *last {
		t.Fatalf("asked again, the last counters are %+v, not %+v", again, last)
	}
	if d.machineOf(id) == nil {
		t.Fatal("the stop of the execution has stopped the workspace")
	}

	resumed := d.restore(execution, saved, 2)
	if text := d.run(resumed, "cat /home/file"); text != "execution" {
		t.Errorf("the restored execution has %q", text)
	}
	if last = d.ended("/subjects/delete", wire.Fenced{Fence: d.fence(execution, 2)}); last == nil || last.Fence != resumed.Fence {
		t.Fatalf("the last counters of the deleted are %+v", last)
	}
	if files := d.filesOf(execution); files.Owner() == execution {
		t.Fatalf("after the delete there is %+v", files)
	}
	if m := d.machineOf(id); m == nil || d.run(*m, "cat /home/file") != "workspace" {
		t.Fatal("the delete of the execution has reached the workspace")
	}
	d.stop(workspace)
}

func (d *daemon) ended(path string, request any) *wire.MachineCounters {
	d.t.Helper()
	var ended wire.Ended
	d.ok(d.call("POST", path, request, &ended))
	return ended.Counters
}

func TestRecordsOfReleasesThatKnewOnlyWorkspacesAreTheirs(t *testing.T) {
	id := newID()
	var claim engine.Claim
	must(t, json.Unmarshal([]byte(`{"workspace_id":"`+id+`","epoch":3,"fence":9,"disk":"e3.9"}`), &claim))
	var m manifest
	must(t, json.Unmarshal([]byte(`{"version":1,"workspace_id":"`+id+`","checkpoint_id":"`+newID()+`"}`), &m))
	if wire.SubjectOf(claim.Owner) != wire.Workspace(id) || m.info().Subject != wire.Workspace(id) {
		t.Fatalf("the claim is of %+v, the manifest of %+v", wire.SubjectOf(claim.Owner), m.info().Subject)
	}
}

func TestAFenceGuardsItsOwnKindAlone(t *testing.T) {
	j := newTestJobs(t, t.TempDir())
	id := newID()
	run := func(kind string, fence int64) error {
		c := testCall(id, fence, "s", func() (any, error) { return nil, nil })
		c.fence.Kind = kind
		_, err := j.run(t.Context(), c)
		return err
	}
	must(t, run(wire.KindWorkspace, 9))
	must(t, run(wire.KindExecution, 3))
	if run(wire.KindExecution, 2) == nil || run(wire.KindWorkspace, 8) == nil {
		t.Fatal("a lower fence of the same kind is taken")
	}
}

func TestTheLastCountersOfManyAreForgottenWhenTheyAreOld(t *testing.T) {
	var last lastCounters
	began := time.Unix(1_700_000_000, 0)
	for range countersLooseAt {
		last.keep(newID(), wire.MachineCounters{}, began)
	}
	last.keep("young", wire.MachineCounters{Fence: 7}, began.Add(countersKept/2))
	last.keep("youngest", wire.MachineCounters{}, began.Add(countersKept+1))
	if len(last.known) != 2 || last.of("young").Fence != 7 {
		t.Fatalf("%d are remembered", len(last.known))
	}
	last.forget("young")
	if last.of("young") != nil {
		t.Fatal("the counters of another machine are told")
	}
}
