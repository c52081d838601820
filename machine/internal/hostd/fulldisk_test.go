package hostd

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// A write reserves more than it needs, and the rest is freed later, so two passes must fail. The output is on the same
// disk, and appears only when space is free again.
const fillDisk = `n=0; full=0; while [ $n -lt 200 ] && [ $full -lt 2 ]; do
	n=$((n + 1)); full=$((full + 1))
	head -c 1K /dev/zero >>/home/big 2>/dev/null && full=0; cat /dev/zero >>/home/big 2>/dev/null
	head -c 4000 /dev/zero >/home/small$n 2>/dev/null && full=0
	sync; sleep 0.2
done; true`

// Waits a second, in which hostd may raise the limit.
func (d *daemon) fill(m wire.Machine) {
	d.t.Helper()
	eventually(d.t, "the disk is full", func() bool {
		d.run(m, fillDisk)
		time.Sleep(time.Second)
		// The check keeps /home/more: removing it would free the space again.
		return !strings.Contains(d.run(m, "head -c 100K /dev/zero >/home/more && echo fits"), "fits")
	})
}

func TestAMachineOnAFullDiskIsSavedAndGoesOnOnADiskThatItCanDeleteFrom(t *testing.T) {
	d := newDaemon(t, nil)
	m := d.startMachine(newID(), 1)
	d.fill(m)
	for epoch := int64(2); epoch <= 4; epoch++ { // the service's own writes before the guest runs add up
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
