package hostd

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestAMachineLivesThroughSuspendResumeForkAndStop(t *testing.T) {
	d := withOthers(t)
	eventually(t, "a slot and a shell are ready", func() bool { i := d.inventory(); return i.Slots == 1 && i.Shells == 1 })
	workspace := newID()
	began := time.Now()
	m := d.startMachine(workspace, 1)
	t.Logf("start with a slot ready: %d ms", time.Since(began).Milliseconds())
	if memory := d.run(m, "awk '/MemTotal/{print $2}' /proc/meminfo"); memory != "262144" {
		t.Errorf("the guest sees %s KiB of memory", memory)
	}
	if cpus := d.run(m, "nproc"); cpus != "2" {
		t.Errorf("the guest sees %s processors", cpus)
	}
	if m.Connected {
		t.Error("a started machine is connected before anybody said so")
	}
	d.run(m, "echo kept > /home/file; id=$(cat /etc/machine-id); echo $id > /home/id")
	d.begin(m, "counter", counter)
	atSuspend := d.counts(m, 0)

	id := newID()
	began = time.Now()
	d.checkpoint(m, id, "paused")
	t.Logf("suspend: %d ms", time.Since(began).Milliseconds())
	if found := d.machineOf(workspace); found == nil || found.State != "paused" {
		t.Fatalf("after the checkpoint the machine is %+v", found)
	}
	if answer := d.guest(m, "GET", "/incarnation", nil, 300*time.Millisecond); answer != nil {
		t.Fatalf("the paused guest answered %q", answer)
	}
	d.stop(m)
	d.stop(m)
	if d.machineOf(workspace) != nil {
		t.Fatal("the stopped machine is still there")
	}

	began = time.Now()
	resumed := d.restore(workspace, id, 2)
	t.Logf("resume with a shell ready: %d ms", time.Since(began).Milliseconds())
	atFork := d.counts(resumed, atSuspend)
	if text := d.run(resumed, "cat /home/file"); text != "kept" {
		t.Fatalf("the file holds %q", text)
	}
	if memory := d.run(resumed, "awk '/MemTotal/{print $2}' /proc/meminfo"); memory != "262144" {
		t.Errorf("after the resume the guest sees %s KiB of memory", memory)
	}
	d.refusedByOldKey(m, resumed)

	child := newID()
	capture := wire.CheckpointRequest{Fence: d.fence(workspace, 2), CheckpointID: newID(), Into: into(child), IntoFence: 1, Then: "running"}
	var info wire.CheckpointInfo
	d.ok(d.call("POST", "/machines/checkpoint", capture, &info))
	t.Logf("fork: the source stood still for %d ms", info.PausedMS)
	if info.Owner() != child || info.PausedMS < 1 {
		t.Fatalf("the fork's checkpoint is %+v", info)
	}
	request := d.restoreRequest(child, capture.CheckpointID, 1)
	request.RenewIdentity, request.Hostname = true, "child"
	var forked wire.Machine
	d.ok(d.call("POST", "/machines/restore", request, &forked))
	d.counts(forked, atFork)
	d.counts(resumed, atFork)
	d.run(forked, "echo child > /home/file")
	if text := d.run(resumed, "cat /home/file"); text != "kept" {
		t.Fatalf("the fork wrote to its source: %q", text)
	}
	if text := d.run(forked, "cat /etc/hostname; cmp -s /etc/machine-id /home/id && echo same"); text != "child" {
		t.Fatalf("the fork is %q", text)
	}
	const boot = "cat /proc/sys/kernel/random/boot_id"
	if own, other := d.run(forked, boot), d.run(resumed, boot); len(own) != 36 || own == other {
		t.Fatalf("the boot ids are %q and %q", own, other)
	}
	d.stop(forked)
	d.stop(resumed)
}

func (d *daemon) refusedByOldKey(old, current wire.Machine) {
	d.t.Helper()
	current.AgentKey, current.Epoch = old.AgentKey, old.Epoch
	answer := d.guest(current, "GET", "/incarnation", nil, testns.Patience(patient))
	if answer == nil || strings.Contains(string(answer), `"workspace_id"`) {
		d.t.Fatalf("the key of an old incarnation is answered with %q", answer)
	}
}

func TestADiskOutlivesItsMachineAndAnAttemptStartsOnACopyOfIt(t *testing.T) {
	d := withOthers(t)
	workspace := newID()
	first := d.startMachine(workspace, 1)
	d.run(first, "echo one > /home/file; sync /home/file")
	d.stop(first)
	again := d.startRequest(workspace, 2)
	again.FromDisk = first.Disk
	var second wire.Machine
	d.ok(d.call("POST", "/machines/start", again, &second))
	if text := d.run(second, "cat /home/file; echo two > /home/file"); text != "one" {
		t.Fatalf("the file holds %q", text)
	}
	d.stop(second)
	third := d.startRequest(workspace, 3)
	third.FromDisk = first.Disk
	var fallback wire.Machine
	d.ok(d.call("POST", "/machines/start", third, &fallback))
	if text := d.run(fallback, "cat /home/file"); text != "one" {
		t.Fatalf("an attempt changed the disk it began from: %q", text)
	}
	d.refused(d.call("POST", "/disks/delete", wire.DeleteRequest{Fence: d.fence(workspace, 3), Names: []string{fallback.Disk}}, nil), "already_running")
	d.ok(d.call("POST", "/disks/delete", wire.DeleteRequest{Fence: d.fence(workspace, 3), Names: []string{first.Disk, second.Disk}}, nil))
	d.ok(d.call("POST", "/subjects/delete", wire.Fenced{Fence: d.fence(workspace, 3)}, nil))
	if files := d.filesOf(workspace); files.Owner() == workspace {
		t.Fatalf("after the delete there is %+v", files)
	}
}
