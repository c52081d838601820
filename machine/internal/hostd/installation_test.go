package hostd

import (
	"net/http"
	"os"
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestAPoolBelongsToTheFirstThatComesAndToAnotherOnlyWhenThatIsMeant(t *testing.T) {
	dir := t.TempDir()
	first, second := newID(), newID()
	owner, err := openInstallation(dir)
	must(t, err)
	must(t, owner.admits(""))
	must(t, owner.claim(first, ""))
	must(t, owner.claim(first, ""))
	if owner.claim(second, "") == nil || owner.claim(second, newID()) == nil {
		t.Error("another installation took the pool")
	}
	again, err := openInstallation(dir)
	must(t, err)
	must(t, again.admits(first))
	for _, stranger := range []string{second, ""} {
		if again.admits(stranger) == nil {
			t.Errorf("%q may change a pool of another installation", stranger)
		}
	}
	must(t, again.claim(second, first))
	if last, err := openInstallation(dir); err != nil || last.current() != second {
		t.Errorf("the pool is not the one's that was named: %v", err)
	}
	info, err := os.Stat(again.path)
	must(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("the file's mode is %v", info.Mode())
	}
	must(t, os.WriteFile(again.path, []byte("half a na"), 0o600))
	if _, err := openInstallation(dir); err == nil {
		t.Error("a damaged file is taken for none: whoever comes next would have the pool")
	}
}

type caller struct {
	of   http.RoundTripper
	name string
}

func (c caller) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.name != "" {
		r.Header.Set(wire.InstallationHeader, c.name)
	}
	return c.of.RoundTrip(r)
}

func TestAStrangeInstallationChangesNothingAndWhatIsInQuarantineStaysThereOverARestart(t *testing.T) {
	d := newDaemon(t, nil)
	plain := d.client.Transport
	speakAs := func(name string) { d.client.Transport = caller{plain, name} }
	owner, stranger := newID(), newID()
	claim := func(id, insteadOf string) *wire.HostError {
		return d.call("POST", "/installation", wire.InstallationRequest{InstallationID: id, InsteadOf: insteadOf}, nil)
	}
	d.ok(claim(owner, ""))
	speakAs(owner)
	m := d.startMachine(newID(), 1)
	id := newID()
	d.checkpoint(m, id, "running")

	d.refused(claim(stranger, ""), "wrong_installation")
	for _, name := range []string{stranger, ""} {
		speakAs(name)
		d.refused(d.call("POST", "/machines/start", d.startRequest(newID(), 1), nil), "wrong_installation")
		for _, path := range []string{"/machines/stop", "/subjects/delete", "/subjects/fence", "/machines/freeze"} {
			d.refused(d.call("POST", path, wire.Fenced{Fence: d.fence(m.Owner(), 1)}, nil), "wrong_installation")
		}
		d.refused(d.call("POST", "/disks/delete", wire.DeleteRequest{Fence: d.fence(m.Owner(), 1), Names: []string{m.Disk}}, nil), "wrong_installation")
	}
	speakAs(owner)

	list := wire.QuarantineRequest{Fence: d.fence(m.Owner(), 1), Disks: []string{m.Disk}, Checkpoints: []string{id}}
	d.ok(d.call("POST", "/subjects/quarantine", list, nil))
	before := d.filesOf(m.Owner()).Quarantined
	if len(before) != 2 || before[0].Name != id || before[1].Name != m.Disk || before[0].Since == "" {
		t.Fatalf("in quarantine: %+v", before)
	}
	d.kill()
	d.start()
	if inventory := d.inventory(); inventory.Installation != owner || inventory.HighestFence != list.Fence.Fence {
		t.Errorf("after a restart the pool is of %q, and the highest fence is %d", inventory.Installation, inventory.HighestFence)
	}
	list = wire.QuarantineRequest{Fence: d.fence(m.Owner(), 1), Checkpoints: []string{id}}
	d.ok(d.call("POST", "/subjects/quarantine", list, nil))
	after := d.filesOf(m.Owner()).Quarantined
	if len(after) != 1 || after[0] != before[0] {
		t.Errorf("the checkpoint is kept as %+v, and was as %+v", after, before[0])
	}
	var glance wire.Inventory
	d.ok(d.call("GET", "/inventory?files=false", nil, &glance))
	if len(glance.Files) != 0 || len(glance.Machines) != 1 {
		t.Errorf("a glance shows files of %d and %d machines", len(glance.Files), len(glance.Machines))
	}
	var stats wire.Stats
	d.ok(d.call("POST", "/machines/measure", wire.MeasureRequest{Subjects: []wire.Subject{wire.Workspace(newID()), m.Subject}}, &stats))
	if len(stats.Machines) != 1 || stats.Machines[0].Owner() != m.Owner() || stats.Machines[0].MemoryBytes == 0 {
		t.Errorf("measured %+v", stats)
	}
}
