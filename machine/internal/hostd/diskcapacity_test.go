package hostd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// head would write pieces of 8 KiB, and each would call the sandbox's kernel.
func writeZeros(path string, mib int) string {
	return fmt.Sprintf("dd if=/dev/zero of=%s bs=1M count=%d 2>/dev/null", path, mib)
}

func (d *daemon) fits(m wire.Machine, name string, mib int) bool {
	d.t.Helper()
	path := "/home/" + name
	script := fmt.Sprintf("%s && sync %s && echo fits || rm -f %s", writeZeros(path, mib), path, path)
	return strings.Contains(d.run(m, script), "fits")
}

func (d *daemon) soonFits(m wire.Machine, name string, mib int) {
	d.t.Helper()
	eventually(d.t, fmt.Sprintf("%d MiB fit", mib), func() bool { return d.fits(m, name, mib) })
}

func TestDeletedFilesGiveTheirRoomBackAlthoughASnapshotHoldsThem(t *testing.T) {
	d := newDaemon(t, nil)
	m := d.startMachine(newID(), 1)
	if !d.fits(m, "a", 600) {
		t.Fatal("600 MiB do not fit on a blank disk of 1 GiB")
	}
	info := d.checkpoint(m, newID(), "running")
	if info.DiskBytes == nil || *info.DiskBytes < 600<<20 || *info.DiskBytes > 640<<20 {
		t.Fatalf("the snapshot says of its disk: %v", info.DiskBytes)
	}
	if d.fits(m, "b", 600) {
		t.Fatal("1200 MiB fit on a disk of 1 GiB")
	}
	d.kill() // the next hostd enforces the same limit
	d.start()
	d.run(m, "rm /home/a")
	d.soonFits(m, "b", 600)
	if d.fits(m, "c", 600) {
		t.Fatal("with a snapshot 1200 MiB fit on a disk of 1 GiB")
	}
	id := newID()
	d.checkpoint(m, id, "paused")
	d.stop(m)
	m = d.restore(m.Owner(), id, 2)
	if d.fits(m, "c", 600) || !d.fits(m, "c", 300) {
		t.Fatal("after a resume the disk of 1 GiB holds another amount than 1 GiB")
	}
	d.stop(m)
}

func TestAForkAndItsSourceEachHoldTheSizeOfTheirOwnDisk(t *testing.T) {
	d := withOthers(t)
	source := d.startMachine(newID(), 1)
	if !d.fits(source, "a", 600) {
		t.Fatal("600 MiB do not fit on a blank disk of 1 GiB")
	}
	target, id := newID(), newID()
	copied := wire.CheckpointRequest{Fence: d.fence(source.Owner(), 1), CheckpointID: id, Then: "running", Into: into(target),
		IntoFence: d.fence(target, 1).Fence}
	d.ok(d.call("POST", "/machines/checkpoint", copied, nil))
	fork := d.restore(target, id, 1)
	if d.fits(fork, "b", 600) || !d.fits(fork, "b", 300) {
		t.Fatal("a fork with 600 MiB of its source does not hold 1 GiB")
	}
	d.run(source, "rm /home/a")
	d.soonFits(source, "b", 800)
	d.run(fork, "rm /home/a")
	d.soonFits(fork, "c", 600)
	d.stop(source)
	d.stop(fork)
}

func TestOnAFullDiskOtherContentIsPutInPlaceAtOnce(t *testing.T) {
	d := withOthers(t)
	m := d.startMachine(newID(), 1)
	d.run(m, "echo kept >/home/file")
	snapshot, full := newID(), newID()
	d.checkpoint(m, snapshot, "running")
	d.fill(m)
	d.checkpoint(m, full, "paused")
	d.stop(m)

	m = d.startMachine(m.Owner(), 2)
	if !d.fits(m, "a", 300) {
		t.Error("a blank disk beside the checkpoint of a full one has no room")
	}
	d.stop(m)
	m = d.restore(m.Owner(), snapshot, 3)
	if text := d.run(m, "cat /home/file"); text != "kept" || !d.fits(m, "a", 300) {
		t.Errorf("the small snapshot: %q, or no room", text)
	}
	d.stop(m)
	m = d.restore(m.Owner(), full, 4)
	if d.fits(m, "a", 1) {
		t.Error("the full disk has room")
	}
	d.run(m, "rm /home/big")
	d.soonFits(m, "a", 300)
	d.stop(m)
}

func TestAResetThatWouldLeaveNoRoomIsRefusedAndTheGuestRunsOn(t *testing.T) {
	d := withOthers(t)
	m := d.startMachine(newID(), 1)
	d.fill(m)
	request := wire.CheckpointRequest{Fence: d.fence(m.Owner(), 1), CheckpointID: newID(), Then: "paused", ThenBlank: true}
	d.ok(d.call("POST", "/machines/checkpoint", request, nil))
	d.stop(m)
	before := m.Disk
	m = d.startMachine(m.Owner(), 2)
	d.ok(d.call("POST", "/disks/delete", wire.DeleteRequest{Fence: d.fence(m.Owner(), 2), Names: []string{before}}, nil))
	d.fill(m)
	again := wire.CheckpointRequest{Fence: d.fence(m.Owner(), 2), CheckpointID: newID(), Then: "paused", ThenBlank: true}
	d.refused(d.call("POST", "/machines/checkpoint", again, nil), "disk_full")
	if text := d.run(m, "rm /home/small1; echo runs"); text != "runs" {
		t.Errorf("the guest says %q", text)
	}
	d.checkpoint(m, newID(), "paused") // a suspend is no reset
	d.stop(m)
	d.refused(d.call("POST", "/machines/start", d.startRequest(m.Owner(), 3), nil), "disk_full")
	d.ok(d.call("POST", "/checkpoints/delete", wire.DeleteRequest{Fence: d.fence(m.Owner(), 3), Names: []string{request.CheckpointID}}, nil))
	m = d.startMachine(m.Owner(), 3)
	if !d.fits(m, "a", 300) {
		t.Error("the room of a deleted checkpoint is not back")
	}
	d.stop(m)
}

func TestTheDiskOfADeadMachineIsCapturedAndRestored(t *testing.T) {
	d := withOthers(t)
	m := d.startMachine(newID(), 1)
	d.run(m, "echo kept >/home/file; sync")
	request := wire.CheckpointRequest{Fence: d.fence(m.Owner(), 1), CheckpointID: newID(), Then: "running", DiskOnly: true,
		FromDisk: m.Disk, Layers: []string{d.layer}, Resources: small}
	d.refused(d.call("POST", "/machines/checkpoint", request, nil), "already_running")
	d.stop(m)
	var info wire.CheckpointInfo
	request.Fence = d.fence(m.Owner(), 1)
	d.ok(d.call("POST", "/machines/checkpoint", request, &info))
	if !info.DiskOnly || info.Epoch != 1 || info.Resources != small || info.DiskBytes == nil {
		t.Fatalf("the checkpoint is %+v", info)
	}
	d.ok(d.call("POST", "/disks/delete", wire.DeleteRequest{Fence: d.fence(m.Owner(), 1), Names: []string{m.Disk}}, nil))
	m = d.restore(m.Owner(), info.CheckpointID, 2)
	if text := d.run(m, "cat /home/file"); text != "kept" {
		t.Errorf("restored: %q", text)
	}
	d.stop(m)
	missing := request
	missing.Fence, missing.CheckpointID, missing.FromDisk = d.fence(m.Owner(), 2), newID(), "e9.9"
	d.refused(d.call("POST", "/machines/checkpoint", missing, nil), "not_found")
}

func (d *daemon) roomShown(m wire.Machine) (size, free int) {
	d.t.Helper()
	text := d.run(m, "stat -f -c '%b %a %S' /home")
	var blocks, available, block int
	if _, err := fmt.Sscan(text, &blocks, &available, &block); err != nil {
		d.t.Fatalf("stat -f says %q", text)
	}
	return blocks * block >> 20, available * block >> 20
}

func TestAGuestIsToldTheSizeOfItsDiskAndWhatIsLeftOfIt(t *testing.T) {
	d := withOthers(t)
	m := d.startMachine(newID(), 1)
	is := func(m wire.Machine, low, high int) bool {
		size, free := d.roomShown(m)
		return size == 1024 && free >= low && free <= high
	}
	if !is(m, 1000, 1024) {
		size, free := d.roomShown(m)
		t.Fatalf("a blank disk of 1 GiB: size %d, free %d", size, free)
	}
	d.run(m, writeZeros("/home/a", 300))
	if !is(m, 700, 724) {
		size, free := d.roomShown(m)
		t.Fatalf("with 300 MiB: size %d, free %d", size, free)
	}
	id := newID()
	d.checkpoint(m, id, "paused")
	d.stop(m)
	m = d.restore(m.Owner(), id, 2)
	if !is(m, 700, 724) {
		size, free := d.roomShown(m)
		t.Fatalf("restored: size %d, free %d", size, free)
	}
	d.run(m, writeZeros("/home/b", 300)+"; rm /home/a")
	began := time.Now()
	eventually(t, "what a checkpoint holds is free", func() bool { return is(m, 700, 724) })
	t.Logf("what was deleted is free after %d ms", time.Since(began).Milliseconds())
	d.fill(m)
	if !is(m, 0, 1) {
		size, free := d.roomShown(m)
		t.Fatalf("full: size %d, free %d", size, free)
	}
	d.stop(m)
}
