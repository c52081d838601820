package hostd

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// fillDisk leaves no room for a single file. The file system reserves more for a write than it takes, and gives the rest back when it has
// written: the disk is full when nothing fits any more after that, twice. What this prints comes when some is free again: a command's
// output is on the same disk.
const fillDisk = `n=0; full=0; while [ $n -lt 200 ] && [ $full -lt 2 ]; do
	n=$((n + 1)); full=$((full + 1))
	head -c 1K /dev/zero >>/home/big 2>/dev/null && full=0; cat /dev/zero >>/home/big 2>/dev/null
	head -c 4000 /dev/zero >/home/small$n 2>/dev/null && full=0
	sync; sleep 0.2
done; true`

// fill looks a second later, when hostd has set the limit anew, and on a slow computer some time after that.
func (d *daemon) fill(m wire.Machine) {
	d.t.Helper()
	eventually(d.t, "the disk is full", func() bool {
		d.run(m, fillDisk)
		time.Sleep(time.Second)
		// What was written of it stays: removed, it would make room for as much again.
		return !strings.Contains(d.run(m, "head -c 100K /dev/zero >/home/more && echo fits"), "fits")
	})
}

func TestAMachineOnAFullDiskIsSavedAndGoesOnOnADiskThatItCanDeleteFrom(t *testing.T) {
	d := newDaemon(t, nil)
	m := d.startMachine(newID(), 1)
	d.fill(m)
	for epoch := int64(2); epoch <= 4; epoch++ { // what the service itself writes before the guest runs adds up
		id := newID()
		d.checkpoint(m, id, "paused")
		d.stop(m)
		m = d.restore(m.Owner(), id, epoch)
		text := d.run(m, "head -c 100K /dev/zero >/home/more && echo written; rm -f /home/small1 && echo deleted")
		if strings.Contains(text, "written") {
			t.Fatalf("in epoch %d the disk takes more than it may", epoch)
		}
		if epoch == 2 && !strings.Contains(text, "deleted") {
			t.Fatalf("nothing can be deleted: %q", text)
		}
	}
	d.stop(m)
	cold := d.startFrom(m.Owner(), 5, m.Disk)
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
