package hostd

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestMachinesRunOnWhileHostdIsKilledAndAreAdopted(t *testing.T) {
	d := newDaemon(t, nil)
	workspace := newID()
	before := d.startMachine(workspace, 1)
	d.begin(before, "counter", counter)
	at := d.counts(before, 0)
	eventually(t, "a slot and a shell are ready", func() bool { i := d.inventory(); return i.Slots == 1 && i.Shells == 1 })
	boot := d.inventory().BootID
	d.kill()
	at = d.counts(before, at)
	d.start()
	inventory := d.inventory()
	if inventory.BootID == boot || inventory.Slots != 1 || inventory.Shells != 1 {
		t.Fatalf("the second hostd has %+v", inventory)
	}
	after := d.machineOf(workspace)
	if after == nil || !reflect.DeepEqual(*after, before) {
		t.Fatalf("before %+v, after %+v", before, after)
	}
	d.counts(*after, at)
	second := d.startMachine(newID(), 1)
	d.stop(second)
	id := newID()
	d.checkpoint(*after, id, "paused")
	d.stop(*after)
	d.counts(d.restore(workspace, id, 2), at)
}

func TestAMachineThatEndedWhileNobodyLookedIsNews(t *testing.T) {
	d := newDaemon(t, nil)
	workspace := newID()
	m := d.startMachine(workspace, 1)
	d.kill()
	d.killSandbox(m.Slot)
	d.start()
	event := d.nextEvent(0)
	if event.Kind != "died" || event.Owner() != workspace || event.Epoch != 1 || event.Reason != "killed" {
		t.Fatalf("the event is %+v", event)
	}
	if d.machineOf(workspace) != nil {
		t.Fatal("the dead machine is in the inventory")
	}
	if disks := d.inventory().Files[0].Disks; len(disks) != 1 || disks[0] != m.Disk {
		t.Fatalf("the disks are %v", disks)
	}
}

// hostd dies at each failpoint. The next hostd finds the state before or after the step, and a retry succeeds.
func TestHostdDiesAtEachStepOfEachVerb(t *testing.T) {
	d := newDaemon(t, twoSlots)
	d.other = d.otherTemplate()
	source, id := d.preparedCheckpoint()
	for _, point := range FailpointNames {
		verb, _, _ := strings.Cut(point, ".")
		if verb == "unpause" || verb == "fence" || verb == "fit" || strings.HasPrefix(verb, "volume") {
			continue // covered by TestAStepThatFailsIsTakenBack, fit_test.go and tests/acceptance
		}
		t.Run(point, func(t *testing.T) {
			outer := d.t
			defer func() { d.t = outer }()
			d.t = t
			d.dieAt(point, verb, source, id)
		})
		if t.Failed() {
			break
		}
	}
}

func (d *daemon) preparedCheckpoint() (workspace, id string) {
	d.t.Helper()
	workspace, id = newID(), newID()
	m := d.startMachine(workspace, 1)
	d.begin(m, "counter", counter)
	d.counts(m, 0)
	d.checkpoint(m, id, "paused")
	d.stop(m)
	return workspace, id
}

func (d *daemon) dieAt(point, verb, source, id string) {
	d.t.Helper()
	switch verb {
	case "start", "connect": // connect is the last step of a start that requests it
		d.plainSlot()
		d.dieInStart(point, d.other)
	case "checkpoint":
		for _, then := range []string{thenPaused, thenRunning} {
			if point != "checkpoint.resume" || then == thenRunning {
				d.dieInCheckpoint(point, then)
			}
		}
	case "restore":
		d.dieInRestore(point, source, id)
	case "clone":
		d.dieInClone(point, source, id)
	case "stop", "delete":
		d.dieInEnd(point, verb)
	case "layer_make":
		d.dieInLayerMake(point, source, id)
	case "layer_drop":
		d.dieInLayerDrop(point, source, id)
	case "tree_apply":
		d.dieInTreeApply(point)
	default:
		d.t.Fatalf("no case for %s", point)
	}
}

func (d *daemon) restartAfter(point string, refusal *wire.HostError) {
	d.t.Helper()
	if refusal == nil || refusal.Code != "no_answer" {
		d.t.Fatalf("%s did not end hostd: %+v", point, refusal)
	}
	d.wait()
	d.start()
}

func (d *daemon) dieInStart(point string, layers []string) {
	d.setFailpoints(Failpoints{point: "kill9"})
	request := d.startRequest(newID(), 1)
	request.Connect, request.Layers = true, layers
	d.restartAfter(point, d.call("POST", "/machines/start", request, nil))
	found := d.machineOf(request.Owner())
	if (found != nil) != (point == "start.answer") {
		d.t.Fatalf("after the restart the machine is %+v", found)
	}
	var m wire.Machine
	d.ok(d.call("POST", "/machines/start", request, &m))
	if found != nil && found.Slot != m.Slot {
		d.t.Fatal("the second ask made a second machine")
	}
	if !m.Connected {
		d.t.Fatal("the machine is not connected")
	}
	if text := d.run(m, "echo hello"); text != "hello" {
		d.t.Fatalf("the guest says %q", text)
	}
	d.ok(d.call("POST", "/subjects/delete", wire.Fenced{Fence: d.fence(m.Owner(), 1)}, nil))
}

func (d *daemon) dieInCheckpoint(point, then string) {
	m := d.startMachine(newID(), 1)
	d.begin(m, "counter", counter)
	at := d.counts(m, 0)
	d.setFailpoints(Failpoints{point: "kill9"})
	request := wire.CheckpointRequest{Fence: d.fence(m.Owner(), 1), CheckpointID: newID(), Then: then}
	d.restartAfter(point, d.call("POST", "/machines/checkpoint", request, nil))
	found := d.machineOf(m.Owner())
	if found == nil {
		d.t.Fatal("the machine is gone")
	}
	ran := point == "checkpoint.flush" || point == "checkpoint.pause" || then == thenRunning && isAfterResume(point)
	if (found.State == "running") != ran {
		d.t.Fatalf("%s, then %s: the machine is %s", point, then, found.State)
	}
	written := len(d.inventory().Files) > 0 && len(d.filesOf(m.Owner()).Checkpoints) == 1
	if written != (point == "checkpoint.answer") {
		d.t.Fatalf("%s: a checkpoint is there: %v", point, written)
	}
	if point != "checkpoint.answer" {
		d.ok(d.call("POST", "/machines/unpause", wire.Fenced{Fence: d.fence(m.Owner(), 1)}, nil))
		d.ok(d.call("POST", "/machines/unpause", wire.Fenced{Fence: d.fence(m.Owner(), 1)}, nil))
		at = d.counts(*found, at)
		request.Fence = d.fence(m.Owner(), 1)
	}
	d.ok(d.call("POST", "/machines/checkpoint", request, nil))
	if then == thenRunning {
		at = d.counts(*found, at)
	}
	d.stop(m)
	d.counts(d.restore(m.Owner(), request.CheckpointID, 2), 0)
	d.ok(d.call("POST", "/subjects/delete", wire.Fenced{Fence: d.fence(m.Owner(), 1)}, nil))
}

func isAfterResume(point string) bool {
	switch point {
	case "checkpoint.sync", "checkpoint.manifest", "checkpoint.rename", "checkpoint.answer":
		return true
	}
	return false
}

func (d *daemon) dieInRestore(point, source, id string) {
	d.setFailpoints(Failpoints{point: "kill9"})
	request := d.restoreRequest(source, id, 2)
	d.restartAfter(point, d.call("POST", "/machines/restore", request, nil))
	found := d.machineOf(source)
	if (found != nil) != (point == "restore.answer") {
		d.t.Fatalf("after the restart the machine is %+v", found)
	}
	var m wire.Machine
	d.ok(d.call("POST", "/machines/restore", request, &m))
	d.counts(m, 0)
	d.stop(m)
	d.ok(d.call("POST", "/disks/delete", wire.DeleteRequest{Fence: d.fence(source, 2), Names: []string{m.Disk}}, nil))
}

func (d *daemon) dieInClone(point, source, id string) {
	d.setFailpoints(Failpoints{point: "kill9"})
	request := wire.CloneRequest{Fence: d.fence(newID(), 1), Source: wire.Workspace(source), SourceCheckpointID: id, CheckpointID: newID()}
	d.restartAfter(point, d.call("POST", "/checkpoints/clone", request, nil))
	d.ok(d.call("POST", "/checkpoints/clone", request, nil))
	d.counts(d.restore(request.Owner(), request.CheckpointID, 1), 0)
	d.ok(d.call("POST", "/subjects/delete", wire.Fenced{Fence: d.fence(request.Owner(), 1)}, nil))
}

func (d *daemon) dieInEnd(point, verb string) {
	m := d.startMachine(newID(), 1)
	d.setFailpoints(Failpoints{point: "kill9"})
	path, body := "/machines/stop", any(wire.StopRequest{Fence: d.fence(m.Owner(), 1)})
	if verb == "delete" {
		path, body = "/subjects/delete", wire.Fenced{Fence: d.fence(m.Owner(), 1)}
	}
	d.restartAfter(point, d.call("POST", path, body, nil))
	d.ok(d.call("POST", path, body, nil))
	if d.machineOf(m.Owner()) != nil {
		d.t.Fatal("the machine is still there")
	}
	d.ok(d.call("POST", "/subjects/delete", wire.Fenced{Fence: d.fence(m.Owner(), 1)}, nil))
}

// If hostd survives, a failed start or restore leaves nothing, and a failed checkpoint leaves the guest running.
func TestAStepThatFailsIsTakenBack(t *testing.T) {
	d := newDaemon(t, nil)
	source, id := d.preparedCheckpoint()
	m := d.startMachine(newID(), 1)
	d.begin(m, "counter", counter)
	at := d.counts(m, 0)
	for _, point := range FailpointNames {
		verb, step, _ := strings.Cut(point, ".")
		if step == "answer" {
			continue // the verb is complete by then, and only its answer is lost
		}
		d.setFailpoints(Failpoints{point: "throw"})
		switch verb {
		case "checkpoint":
			if point == "checkpoint.resume" {
				d.refused(d.call("POST", "/machines/checkpoint", wire.CheckpointRequest{Fence: d.fence(m.Owner(), 1), CheckpointID: newID(), Then: thenRunning}, nil), "checkpoint_failed")
			} else {
				d.refused(d.call("POST", "/machines/checkpoint", wire.CheckpointRequest{Fence: d.fence(m.Owner(), 1), CheckpointID: newID(), Then: thenPaused}, nil), "checkpoint_failed")
			}
			at = d.counts(m, at)
			if n := len(d.filesOf(m.Owner()).Checkpoints); n != 0 {
				t.Fatalf("%s left %d checkpoints", point, n)
			}
			d.isEmpty(point, filepath.Join(d.dir, "pool/ws", m.Owner(), "checkpoints"))
		case "start":
			request := d.startRequest(newID(), 1)
			d.refused(d.call("POST", "/machines/start", request, nil), "start_failed")
			d.isEmpty(point, filepath.Join(d.dir, "pool/ws", request.Owner(), "disks"))
		case "restore":
			d.refused(d.call("POST", "/machines/restore", d.restoreRequest(source, id, 2), nil), "restore_failed")
			if disks := d.filesOf(source).Disks; len(disks) != 1 {
				t.Fatalf("%s left the disks %v", point, disks)
			}
		case "clone":
			request := wire.CloneRequest{Fence: d.fence(newID(), 1), Source: wire.Workspace(source), SourceCheckpointID: id, CheckpointID: newID()}
			d.refused(d.call("POST", "/checkpoints/clone", request, nil), "checkpoint_failed")
			d.isEmpty(point, filepath.Join(d.dir, "pool/ws", request.Owner(), "checkpoints"))
		}
	}
	d.counts(d.restore(source, id, 3), 0)
	d.setFailpoints(Failpoints{})
	eventually(t, "the slots are as many as wanted", func() bool {
		entries, err := os.ReadDir(d.dir + "/data/slots")
		return err == nil && len(entries) == 4 // two machines, one warm and one blank sandbox
	})
}

// The path leads through hostd's root: only hostd's mount namespace has the pool mounted.
func (d *daemon) isEmpty(point, dir string) {
	d.t.Helper()
	inside := filepath.Join("/proc", itoa(d.process.Process.Pid), "root", dir)
	entries, err := os.ReadDir(inside)
	if err != nil && !os.IsNotExist(err) {
		d.t.Fatal(err)
	}
	if len(entries) != 0 {
		d.t.Fatalf("%s left %v in %s", point, entries, dir)
	}
}

func (d *daemon) filesOf(workspace string) wire.SubjectFiles {
	d.t.Helper()
	for _, files := range d.inventory().Files {
		if files.Owner() == workspace {
			return files
		}
	}
	return wire.SubjectFiles{}
}

func TestAHostdThatWasStoppedAndGoesOnAfterItsSuccessorIsRefused(t *testing.T) {
	d := newDaemon(t, nil)
	m := d.startMachine(newID(), 1)
	must(t, d.process.Process.Signal(unix.SIGSTOP))
	time.Sleep(50 * time.Millisecond)
	output, err := d.tryStart()
	if err == nil || !strings.Contains(output, "another hostd") {
		t.Fatalf("a second hostd ran beside the first: %v %s", err, output)
	}
	must(t, d.process.Process.Signal(unix.SIGCONT))
	if d.machineOf(m.Owner()) == nil {
		t.Fatal("the machine is gone")
	}
}

func TestSlotsOfAnotherSizeAreReplacedWhenTheSettingChanges(t *testing.T) {
	d := newDaemon(t, nil)
	ready := func() bool { i := d.inventory(); return i.Slots == 1 && i.Shells == 1 }
	eventually(t, "a slot and a shell wait", ready)
	d.kill()
	d.config["slots"] = map[string]any{"count": 1, "cpu_millis": 1000, "memory_mib": 320}
	d.start()
	eventually(t, "a slot and a shell of the new size wait", ready)
	eventually(t, "no slot of the old size is left", func() bool {
		paths, err := filepath.Glob(d.dir + "/data/slots/*/slot.json")
		must(t, err)
		for _, path := range paths {
			record, err := os.ReadFile(path)
			if err == nil && !strings.Contains(string(record), `"memory_mib":320`) {
				return false
			}
		}
		return len(paths) > 0
	})
}
