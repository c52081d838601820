package hostd

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// fillDisk leaves no room for a single file. What it prints comes when some is free again: a command's output is on the same disk.
const fillDisk = `cat /dev/zero >/home/big 2>/dev/null; for n in $(seq 200); do head -c 4000 /dev/zero >/home/small$n 2>/dev/null || break; done; true`

func TestAMachineOnAFullDiskIsSavedAndGoesOnOnADiskThatItCanDeleteFrom(t *testing.T) {
	d := newDaemon(t, nil)
	m := d.startMachine(newID(), 1)
	d.run(m, fillDisk)
	for epoch := int64(2); epoch <= 4; epoch++ { // what the service itself writes before the guest runs adds up
		id := newID()
		d.checkpoint(m, id, "paused")
		d.stop(m)
		m = d.restore(m.WorkspaceID, id, epoch)
		text := d.run(m, "head -c 100K /dev/zero >/home/more && echo written; rm -f /home/small1 && echo deleted")
		if strings.Contains(text, "written") {
			t.Fatalf("in epoch %d the disk takes more than it may", epoch)
		}
		if epoch == 2 && !strings.Contains(text, "deleted") {
			t.Fatalf("nothing can be deleted: %q", text)
		}
	}
	d.stop(m)
	cold := d.startFrom(m.WorkspaceID, 5, m.Disk)
	if text := d.run(cold, "rm -f /home/small2 && echo deleted"); !strings.Contains(text, "deleted") {
		t.Errorf("after a start from a full disk: %q", text)
	}
	d.stop(cold)
}

func (d *daemon) startFrom(workspace string, epoch int64, disk string) wire.Machine {
	d.t.Helper()
	request := d.startRequest(workspace, epoch)
	request.FromDisk = disk
	var m wire.Machine
	d.ok(d.call("POST", "/machines/start", request, &m))
	return m
}
