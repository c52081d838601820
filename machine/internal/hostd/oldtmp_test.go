package hostd

import (
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// withTmpInMemory builds an agent from before /tmp lay on the disk (decision 254). Its guests use the sandbox's /tmp,
// and show the kernel's boot id.
func (d *daemon) withTmpInMemory() string {
	d.t.Helper()
	const adopt = "../agent/spawn/adopt.go"
	return d.built("agent", "agent-old-tmp",
		edit{adopt, "	m.bindState(l)\n", ""},
		edit{adopt, `{"sys", unix.MS_BIND}}`, `{"sys", unix.MS_BIND}, {"tmp", unix.MS_BIND | unix.MS_REC}}`},
		edit{"../agent/guest/guest.go", "identity.Boot(g.layout.State)", "error(nil)"})
}

func TestAMemoryWhoseTmpIsInItGoesOnWithIt(t *testing.T) {
	d := newDaemon(t, nil)
	d.kill()
	agent := d.config["agent"]
	d.config["agent"] = d.withTmpInMemory()
	d.start()
	workspace := newID()
	m := d.startMachine(workspace, 1)
	const kind = "stat -f -c %T /tmp"
	if text := d.run(m, kind); text != "tmpfs" {
		t.Fatalf("/tmp of the old agent is %s", text)
	}
	d.run(m, "echo kept > /tmp/file; mkdir -m 700 /tmp/own; echo deep > /tmp/own/file; ln -s file /tmp/link")
	d.begin(m, "open", "exec 3<> /tmp/nameless; rm /tmp/nameless; echo open >&3; while :; do cat /proc/$$/fd/3 > /home/next; mv /home/next /home/open; sleep 0.05; done")
	eventually(t, "the open file is read", func() bool { return d.run(m, "cat /home/open") == "open" })
	id := newID()
	d.checkpoint(m, id, "paused")
	d.stop(m)

	d.kill()
	d.config["agent"] = agent
	d.start()
	if fresh := d.startMachine(newID(), 1); d.run(fresh, kind) == "tmpfs" {
		t.Error("a machine of the agent of now has /tmp in memory")
	}
	const all = "cat /tmp/file /tmp/link /tmp/own/file; stat -c %a /tmp/own /tmp; echo $(" + kind + "); ls /tmp | wc -l"
	const wanted = "kept\nkept\ndeep\n700\n1777\ntmpfs\n3"
	for epoch := int64(2); epoch < 4; epoch++ { // this hostd wrote the second checkpoint
		m = d.restore(workspace, id, epoch)
		if text := d.run(m, all); text != wanted {
			t.Fatalf("in epoch %d /tmp has %q", epoch, text)
		}
		d.run(m, "rm /home/open; dd if=/dev/zero of=/tmp/more bs=1M count=4 2>/dev/null && rm /tmp/more")
		eventually(t, "the open file is read again", func() bool { return d.run(m, "cat /home/open 2>/dev/null") == "open" })
		id = newID()
		d.checkpoint(m, id, "paused")
		d.stop(m)
	}

	child := newID()
	clone := wire.CloneRequest{Fence: d.fence(child, 1), Source: wire.Workspace(workspace), SourceCheckpointID: id, CheckpointID: newID()}
	d.ok(d.call("POST", "/checkpoints/clone", clone, nil))
	request := d.restoreRequest(child, clone.CheckpointID, 1)
	request.RenewIdentity = true
	var forked wire.Machine
	d.ok(d.call("POST", "/machines/restore", request, &forked))
	if text := d.run(forked, all); text != wanted {
		t.Errorf("/tmp of a fork has %q", text)
	}
	d.stop(forked)

	alone := wire.CloneRequest{Fence: d.fence(workspace, 4), Source: wire.Workspace(workspace), SourceCheckpointID: id, CheckpointID: newID(), DiskOnly: true}
	d.ok(d.call("POST", "/checkpoints/clone", alone, nil))
	m = d.restore(workspace, alone.CheckpointID, 4)
	if text := d.run(m, "test $("+kind+") != tmpfs && ls /tmp | wc -l; stat -c %a /tmp; cat /home/open; wc -c < /proc/sys/kernel/random/boot_id"); text != "0\n1777\nopen\n37" {
		t.Errorf("without its memory it has %q", text)
	}
}
