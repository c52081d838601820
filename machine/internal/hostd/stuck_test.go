package hostd

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func (d *daemon) pin(slot string) (release func()) {
	d.t.Helper()
	file := filepath.Join(d.dir, "data", "slots", slot, "pinned")
	must(d.t, os.WriteFile(file, nil, 0o600))
	if output, err := exec.Command("chattr", "+i", file).CombinedOutput(); err != nil {
		d.t.Skipf("the file system has no immutable files: %v: %s", err, output)
	}
	release = func() { exec.Command("chattr", "-i", file).Run() }
	d.t.Cleanup(release)
	return release
}

func (d *daemon) hasSlot(slot string) bool {
	_, err := os.Stat(filepath.Join(d.dir, "data", "slots", slot))
	return err == nil
}

func TestAMachineThatCouldNotBeStoppedIsClearedAwayWhenItEnds(t *testing.T) {
	d := newDaemon(t, nil)
	m := d.startMachine(newID(), 1)
	d.inHostd("mount", "--bind", "/proc/version", m.FreezerFile) // writing the thaw fails
	d.refused(d.call("POST", "/machines/stop", wire.StopRequest{Fence: d.fence(m.Owner(), 1)}, nil), "internal")
	d.inHostd("umount", m.FreezerFile)
	if d.machineOf(m.Owner()) == nil {
		t.Fatal("a machine that was not stopped is gone")
	}
	d.killSandbox(m.Slot)
	if event := d.nextEvent(0); event.Kind != "died" || event.Owner() != m.Owner() {
		t.Errorf("its end is told as %+v", event)
	}
	eventually(t, "its slot is gone", func() bool { return !d.hasSlot(m.Slot) })
}

func TestASlotThatCouldNotBeRemovedIsSweptLater(t *testing.T) {
	d := newDaemon(t, func(config map[string]any) { config["sweep_seconds"] = 1 })
	eventually(t, "a slot and a shell wait", func() bool { i := d.inventory(); return i.Slots == 1 && i.Shells == 1 })
	slot := d.waitingSlots()[0]
	release := d.pin(slot)
	d.killSandbox(slot)
	eventually(t, "it is a stray", func() bool { return len(d.leftoversOf().Found) > 0 })
	release()
	eventually(t, "it is gone", func() bool { return !d.hasSlot(slot) && len(d.leftoversOf().Found) == 0 })
}

func TestAMachineThatCannotBeRemovedDoesNotKeepHostdFromStarting(t *testing.T) {
	d := newDaemon(t, nil)
	stuck, other := d.startMachine(newID(), 1), d.startMachine(newID(), 1)
	d.kill()
	release := d.pin(stuck.Slot)
	d.killSandbox(stuck.Slot)
	d.start()
	if event := d.nextEvent(0); event.Kind != "died" || event.Owner() != stuck.Owner() {
		t.Errorf("its end is told as %+v", event)
	}
	if d.machineOf(other.Owner()) == nil {
		t.Error("another machine is not adopted")
	}
	again := d.startRequest(stuck.Owner(), 2)
	again.FromDisk = stuck.Disk
	d.refused(d.call("POST", "/machines/start", again, nil), "internal")
	release()
	again.Fence = d.fence(stuck.Owner(), 2)
	var second wire.Machine
	d.ok(d.call("POST", "/machines/start", again, &second))
	if d.hasSlot(stuck.Slot) {
		t.Error("the workspace has another machine before the first is removed")
	}
	d.stop(second)
	d.stop(other)
}
