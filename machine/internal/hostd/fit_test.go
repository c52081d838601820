package hostd

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// With two sandboxes, one can wait without a disk.
func twoSlots(config map[string]any) {
	config["slots"] = map[string]any{"count": 2, "cpu_millis": 1000, "memory_mib": 256}
}

func (d *daemon) otherTemplate() []string {
	d.t.Helper()
	tree, image := d.dir+"/tree", d.dir+"/other.erofs"
	must(d.t, os.Mkdir(tree, 0o755))
	must(d.t, os.WriteFile(tree+"/other", []byte("other\n"), 0o644))
	if output, err := exec.Command("mkfs.erofs", image, tree).CombinedOutput(); err != nil {
		d.t.Fatalf("%v: %s", err, output)
	}
	return []string{d.layer, d.addLayer(image)}
}

func (d *daemon) recordOf(slot string) (record engine.Record, err error) {
	text, err := os.ReadFile(d.seenByHostd("data/slots", slot, "slot.json"))
	if err != nil {
		return record, err
	}
	return record, json.Unmarshal(text, &record)
}

func (d *daemon) waitingRecords() (records []engine.Record) {
	d.t.Helper()
	for _, slot := range d.waitingSlots() {
		record, err := d.recordOf(slot)
		if err == nil && record.Kind == engine.KindWarm && record.Ready {
			records = append(records, record)
		}
	}
	return records
}

func (d *daemon) fittedSlot(layers []string) (slot string) {
	d.t.Helper()
	tries := 0
	eventually(d.t, "a slot is fitted", func() bool {
		for _, record := range d.waitingRecords() {
			if slices.Equal(record.Fitted, layers) {
				slot = record.Slot
				return true
			}
		}
		if tries++; tries%100 == 1 {
			d.deleteWorkspace(d.startOf(layers).Owner())
		}
		return false
	})
	eventually(d.t, "slots and shells wait", func() bool { i := d.inventory(); return i.Slots == 2 && i.Shells == 1 })
	return slot
}

func (d *daemon) plainSlot() {
	d.t.Helper()
	eventually(d.t, "a slot without a disk waits", func() bool {
		return slices.ContainsFunc(d.waitingRecords(), func(r engine.Record) bool { return len(r.Fitted) == 0 })
	})
}

func (d *daemon) startOf(layers []string) wire.Machine {
	d.t.Helper()
	request := d.startRequest(newID(), 1)
	request.Layers = layers
	var m wire.Machine
	d.ok(d.call("POST", "/machines/start", request, &m))
	return m
}

func (d *daemon) spares() []string {
	d.t.Helper()
	entries, err := os.ReadDir(d.seenByHostd("pool/spare"))
	must(d.t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func (d *daemon) onlyFittedHaveSpares() {
	d.t.Helper()
	for _, spare := range d.spares() {
		if !slices.ContainsFunc(d.waitingRecords(), func(r engine.Record) bool { return r.Slot == spare && len(r.Fitted) > 0 }) {
			d.t.Errorf("the spare disk %s is left", spare)
		}
	}
}

func TestAStartTakesTheSlotThatIsFittedForItsTemplate(t *testing.T) {
	d := newDaemon(t, twoSlots)
	other := d.otherTemplate()
	fitted := d.fittedSlot([]string{d.layer})

	stranger := d.startOf(other)
	if text := d.run(stranger, "cat /other"); stranger.Slot == fitted || text != "other" {
		t.Fatalf("another template's machine is in slot %s (%s is fitted) and says %q", stranger.Slot, fitted, text)
	}
	d.run(stranger, "echo mine > /home/user/note; sync")
	d.stop(stranger)
	from := d.startRequest(stranger.Owner(), 2)
	from.Layers, from.FromDisk = other, stranger.Disk
	var m wire.Machine
	d.ok(d.call("POST", "/machines/start", from, &m))
	if text := d.run(m, "cat /home/user/note"); m.Slot == fitted || text != "mine" {
		t.Fatalf("slot %s says %q", m.Slot, text)
	}
	d.deleteWorkspace(m.Owner())

	request := d.startRequest(newID(), 1)
	request.Resources.MemoryMiB = 384
	d.ok(d.call("POST", "/machines/start", request, &m))
	if m.Slot != fitted || m.Disk == "" {
		t.Fatalf("the machine is in slot %s, and %s was fitted", m.Slot, fitted)
	}
	if text := d.run(m, "ls -a /home/user; hostname; awk '/MemTotal/{print $2}' /proc/meminfo; test -e /other"); text != ".\n..\n.bash_logout\n.bashrc\n.profile\nbox\n393216" {
		t.Errorf("the guest says %q", text)
	}
	quota := d.run(m, "dd if=/dev/zero of=/home/big bs=1M count=1200 2>&1; rm /home/big")
	if !strings.Contains(quota, "quota") {
		t.Errorf("its disk has no end: %q", quota)
	}
	if files := d.filesOf(m.Owner()); !slices.Equal(files.Disks, []string{m.Disk}) {
		t.Errorf("its disks are %v", files.Disks)
	}

	d.begin(m, "counter", counter)
	at := d.counts(m, 0)
	id := newID()
	d.checkpoint(m, id, "paused")
	d.stop(m)
	m = d.restore(m.Owner(), id, 2)
	at = d.counts(m, at)
	d.kill()
	d.start()
	d.counts(m, at)
	d.onlyFittedHaveSpares()
	d.deleteWorkspace(m.Owner())
}

func TestAFittedSlotIsTakenOverByTheNextHostdAndGoesWhenNobodyStartsItsTemplate(t *testing.T) {
	d := newDaemon(t, twoSlots)
	other := d.otherTemplate()
	fitted := d.fittedSlot([]string{d.layer})
	d.kill()
	d.start()
	if i := d.inventory(); i.FittedSlots != 1 {
		t.Fatalf("%d slots are fitted after the restart", i.FittedSlots)
	}
	m := d.startOf([]string{d.layer})
	if text := d.run(m, "echo hello"); m.Slot != fitted || text != "hello" {
		t.Fatalf("slot %s says %q, and %s was fitted", m.Slot, text, fitted)
	}
	old := d.fittedSlot([]string{d.layer})
	for range recentMax {
		d.deleteWorkspace(d.startOf(other).Owner())
	}
	eventually(t, "the slot of the old template is gone", func() bool {
		return !slices.ContainsFunc(d.waitingRecords(), func(r engine.Record) bool { return r.Slot == old })
	})
	d.fittedSlot(other)
	eventually(t, "its disk is gone", func() bool { return !slices.Contains(d.spares(), old) })
	dying := d.fittedSlot(other)
	for _, record := range d.waitingRecords() {
		if record.Slot == dying {
			must(t, unix.Kill(record.Sandbox.PID, unix.SIGKILL))
		}
	}
	eventually(t, "the dead slot and its disk are gone", func() bool {
		_, err := os.Stat(d.seenByHostd("data/slots", dying))
		return os.IsNotExist(err) && !slices.Contains(d.spares(), dying)
	})
}

func TestHostdDiesWhileItFitsASlotAndAtEachStepOfAStartFromOne(t *testing.T) {
	d := newDaemon(t, twoSlots)
	layers := []string{d.layer}
	for _, point := range FailpointNames {
		verb, _, _ := strings.Cut(point, ".")
		switch verb {
		case "fit":
			m := d.startOf(layers) // takes the prepared sandbox, so that hostd prepares another
			d.setFailpoints(Failpoints{point: "kill9"})
			eventually(t, point+" ended hostd", func() bool { return d.call("GET", "/inventory", nil, nil) != nil })
			d.wait()
			d.start()
			if text := d.run(m, "echo hello"); text != "hello" {
				t.Fatalf("%s: the machine that runs says %q", point, text)
			}
			d.deleteWorkspace(m.Owner())
		case "start", "connect":
			d.fittedSlot(layers)
			d.dieInStart(point, layers)
		default:
			continue
		}
		d.onlyFittedHaveSpares()
		if t.Failed() {
			t.Fatalf("%s: hostd's log ends: %s", point, d.logTail())
		}
	}
	d.fittedSlot(layers)
	d.deleteWorkspace(d.startOf(layers).Owner())
}

func TestASlotThatCannotBeFittedStaysOrGoesAndStartsGoOn(t *testing.T) {
	d := newDaemon(t, twoSlots)
	layers := []string{d.layer}
	for _, point := range []string{"fit.disk", "fit.mount", "fit.ready"} {
		d.setFailpoints(Failpoints{point: "throw"})
		m := d.startOf(layers)
		eventually(t, point+" failed", func() bool {
			var left Failpoints
			d.ok(d.call("GET", "/failpoints", nil, &left))
			return len(left) == 0
		})
		eventually(t, "slots wait", func() bool { return d.inventory().Slots == 2 })
		if text := d.run(m, "echo hello"); text != "hello" {
			t.Fatalf("the guest says %q", text)
		}
		d.deleteWorkspace(m.Owner())
		d.fittedSlot(layers)
		d.onlyFittedHaveSpares()
		d.deleteWorkspace(d.startOf(layers).Owner())
	}
	for _, point := range []string{"start.slot", "start.mount", "start.claim", "start.commit"} {
		d.fittedSlot(layers)
		d.setFailpoints(Failpoints{point: "throw"})
		request := d.startRequest(newID(), 1)
		d.refused(d.call("POST", "/machines/start", request, nil), "start_failed")
		request.Fence = d.fence(request.Owner(), 1)
		var m wire.Machine
		d.ok(d.call("POST", "/machines/start", request, &m))
		if files := d.filesOf(m.Owner()); !slices.Equal(files.Disks, []string{m.Disk}) {
			t.Errorf("%s: disks %v are left", point, files.Disks)
		}
		d.onlyFittedHaveSpares()
		d.deleteWorkspace(m.Owner())
	}
	if left, _ := filepath.Glob(d.seenByHostd("pool/ws/*")); len(left) != 0 {
		t.Errorf("left in the pool: %v", left)
	}
}

func TestTheFavoriteIsWhatWasStartedMostOfLate(t *testing.T) {
	a, b := []string{"1", "2"}, []string{"2", "1"}
	var recent recentStarts
	if recent.favorite() != nil {
		t.Fatal("a favorite before the first start")
	}
	for i, step := range []struct{ start, favorite []string }{
		{a, a}, {b, b}, {b, b}, {a, a}, {a, a}, {b, b}, {a, a},
	} {
		recent.add(step.start)
		if got := recent.favorite(); !slices.Equal(got, step.favorite) {
			t.Fatalf("after step %d the favorite is %v", i, got)
		}
	}
	for range recentMax {
		recent.add(b)
	}
	if len(recent) != recentMax || recent.count(a) != 0 {
		t.Fatalf("remembered: %v", recent)
	}
	recent.forget(b)
	if recent.favorite() != nil {
		t.Fatal("a favorite that was forgotten")
	}
}
