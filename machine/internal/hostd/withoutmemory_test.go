package hostd

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func (d *daemon) suspended() (workspace, id string) {
	d.t.Helper()
	m := d.startMachine(newID(), 1)
	d.begin(m, "counter", counter)
	d.counts(m, 0)
	d.run(m, "echo kept > /home/file; echo gone > /dev/shm/file")
	id = newID()
	d.checkpoint(m, id, "paused")
	d.stop(m)
	return m.Owner(), id
}

func isTold(detail any, owner string) bool {
	told, _ := detail.(map[string]any)
	subject := wire.SubjectOf(owner)
	return told["kind"] == subject.Kind && told["id"] == subject.ID
}

func (d *daemon) refusedMemory(workspace, id, code, why string) {
	d.t.Helper()
	refusal := d.call("POST", "/machines/restore", d.restoreRequest(workspace, id, 2), nil)
	d.refused(refusal, code)
	told := refusal.Details
	if told["why"] != why || !isTold(told["subject"], workspace) || told["checkpoint_id"] != id || told["disk_is_whole"] != true {
		d.t.Fatalf("the refusal says %v, and should say %s", told, why)
	}
}

func (d *daemon) refusedInInventory(workspace, id string) string {
	d.t.Helper()
	for _, info := range d.filesOf(workspace).Checkpoints {
		if info.CheckpointID == id {
			return info.MemoryRefused
		}
	}
	d.t.Fatalf("the inventory does not name %s", id)
	return ""
}

func (d *daemon) boots(workspace, id string, epoch int64) wire.Machine {
	d.t.Helper()
	clone := wire.CloneRequest{Fence: d.fence(workspace, epoch), Source: wire.Workspace(workspace), SourceCheckpointID: id, CheckpointID: newID(), DiskOnly: true}
	d.ok(d.call("POST", "/checkpoints/clone", clone, nil))
	if why := d.refusedInInventory(workspace, clone.CheckpointID); why != "" {
		d.t.Fatalf("a disk alone is refused: %s", why)
	}
	m := d.restore(workspace, clone.CheckpointID, epoch)
	if text := d.run(m, "cat /home/file; ls /dev/shm/file 2>/dev/null; true"); text != "kept" {
		d.t.Fatalf("the machine has %q", text)
	}
	if state := d.session(m, "counter").State; state != "lost" {
		d.t.Fatalf("the command of before is %s", state)
	}
	if m.Connected {
		d.t.Fatal("its packets leave before its caller says so")
	}
	return m
}

func TestAMemoryThatThisProcessorCannotRestoreIsRefusedWithItsWayOutAndItsDiskBoots(t *testing.T) {
	d := newDaemon(t, nil)
	workspace, id := d.suspended()
	if why := d.refusedInInventory(workspace, id); why != "" {
		t.Fatalf("it is refused already: %s", why)
	}
	path := d.seenByHostd("pool/ws", workspace, "checkpoints", id)
	d.reseal(filepath.Join(path, manifestName), func(m *manifest) { m.Processor = append(m.Processor, "another") })
	d.refusedMemory(workspace, id, "checkpoint_incompatible", wire.RefusedProcessor)
	if why := d.refusedInInventory(workspace, id); why != wire.RefusedProcessor {
		t.Fatalf("the inventory says %q", why)
	}
	if missing := d.filesOf(workspace).Checkpoints[0].MissingFeatures; !slices.Equal(missing, []string{"another"}) {
		t.Fatalf("the inventory says that %v are missing", missing)
	}
	fork := wire.CloneRequest{Fence: d.fence(newID(), 1), Source: wire.Workspace(workspace), SourceCheckpointID: id, CheckpointID: newID()}
	refusal := d.call("POST", "/checkpoints/clone", fork, nil)
	d.refused(refusal, "checkpoint_incompatible")
	if missing, _ := refusal.Details["missing_features"].([]any); len(missing) != 1 || missing[0] != "another" {
		t.Fatalf("the refusal says %v", refusal.Details)
	}
	snapshot := wire.CloneRequest{Fence: d.fence(workspace, 2), Source: wire.Workspace(workspace), SourceCheckpointID: id, CheckpointID: newID()}
	d.ok(d.call("POST", "/checkpoints/clone", snapshot, nil))
	d.stop(d.boots(workspace, id, 2))

	d.reseal(filepath.Join(path, manifestName), func(m *manifest) {
		m.Processor = slices.DeleteFunc(m.Processor, func(one string) bool { return one == "another" })
	})
	restored := d.restore(workspace, id, 3)
	d.counts(restored, 0)
	d.stop(restored)

	image := filepath.Join(path, "pages.img")
	bytes, err := os.ReadFile(image)
	must(t, err)
	bytes[len(bytes)/2] ^= 1
	must(t, os.WriteFile(image, bytes, 0o600))
	d.refusedMemory(workspace, id, "checkpoint_corrupt", wire.RefusedDamaged)
	d.refused(d.call("POST", "/checkpoints/clone", wire.CloneRequest{Fence: d.fence(workspace, 4), Source: wire.Workspace(workspace), SourceCheckpointID: id, CheckpointID: newID()}, nil), "checkpoint_corrupt")
	d.boots(workspace, id, 4)
}

func TestNothingStartsUnderAnEngineThatIsRefusedAndWhatRunsRunsOn(t *testing.T) {
	d := newDaemon(t, nil)
	workspace, id := d.suspended()
	awake := d.startMachine(newID(), 1)
	d.begin(awake, "counter", counter)
	at := d.counts(awake, 0)
	first := d.inventory().Engine
	d.kill()
	d.config["engines_refused"] = []string{first}
	d.start()

	at = d.counts(awake, at)
	if !d.machineOf(awake.Owner()).EngineRefused {
		t.Fatal("the machine's engine is refused, and nobody is told")
	}
	refusal := d.call("POST", "/machines/start", d.startRequest(newID(), 1), nil)
	if d.refused(refusal, "start_failed"); refusal.Details["why"] != wire.RefusedEngineRefused {
		t.Fatalf("a start is refused with %+v", refusal)
	}
	if inventory := d.inventory(); inventory.Slots+inventory.Shells > 0 {
		t.Fatalf("%d slots and %d shells wait under a refused engine", inventory.Slots, inventory.Shells)
	}
	d.refusedMemory(workspace, id, "checkpoint_incompatible", wire.RefusedEngineRefused)
	fork := wire.CheckpointRequest{Fence: d.fence(awake.Owner(), 1), CheckpointID: newID(), Into: into(newID()), IntoFence: 1, Then: "running"}
	d.refused(d.call("POST", "/machines/checkpoint", fork, nil), "checkpoint_incompatible")
	at = d.counts(awake, at)

	path, second := d.otherEngine(first)
	d.kill()
	d.config["runsc"], d.config["engines_refused"] = path, []string{EnginesButCurrent}
	d.start()
	if fresh := d.startMachine(newID(), 1); fresh.Engine != second || d.machineOf(fresh.Owner()).EngineRefused {
		t.Fatalf("a new machine runs under %s", fresh.Engine)
	}
	d.refusedMemory(workspace, id, "checkpoint_incompatible", wire.RefusedEngineRefused)
	if booted := d.boots(workspace, id, 2); booted.Engine != second {
		t.Fatalf("the disk boots under %s", booted.Engine)
	}
	at = d.counts(awake, at)
	last := newID()
	d.checkpoint(awake, last, "paused") // a suspend still saves the machine
	d.stop(awake)
	if why := d.refusedInInventory(awake.Owner(), last); why != wire.RefusedEngineRefused {
		t.Fatalf("the memory of the refused engine is %q", why)
	}
	d.kill()
	delete(d.config, "engines_refused")
	d.start()
	d.counts(d.restore(awake.Owner(), last, 2), at)
}
