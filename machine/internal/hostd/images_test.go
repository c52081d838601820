package hostd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestASandboxHoldsNothingOfAnImageAfterItsSave(t *testing.T) {
	d := withOthers(t)
	m := d.startMachine(newID(), 1)
	id := newID()
	d.checkpoint(m, id, "running")
	record, err := d.recordOf(m.Slot)
	must(t, err)
	descriptors, err := filepath.Glob("/proc/" + itoa(record.Sandbox.PID) + "/fd/*")
	must(t, err)
	if len(descriptors) == 0 {
		t.Fatal("the sandbox has no descriptors")
	}
	for _, descriptor := range descriptors {
		if target, _ := os.Readlink(descriptor); strings.Contains(target, id) || strings.Contains(target, ".img") {
			t.Errorf("the sandbox has %s open", target)
		}
	}
	if left, _ := filepath.Glob(d.seenByHostd("pool/ws", m.Owner(), "checkpoints", id, "*.settled")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	d.stop(m)
}
