package hostd

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func (d *daemon) agentOf(slot string) string {
	return filepath.Join(d.dir, "data/slots", slot, "tree/agent")
}

func (d *daemon) keptAgents() []string {
	d.t.Helper()
	kept, err := filepath.Glob(filepath.Join(d.dir, "data/agents/*/agent"))
	must(d.t, err)
	return kept
}

func linksAndInode(t *testing.T, path string) (links, inode uint64) {
	t.Helper()
	var stat syscall.Stat_t
	must(t, syscall.Stat(path, &stat))
	return uint64(stat.Nlink), stat.Ino
}

func TestEverySlotHasAnAgentOfItsOwnAndNoSandboxCanWriteToAFileOfTheHost(t *testing.T) {
	d := withOthers(t)
	machines := []string{d.startMachine(newID(), 1).Slot, d.startMachine(newID(), 1).Slot}
	seen := map[uint64]string{}
	for _, path := range append(d.keptAgents(), d.agentOf(machines[0]), d.agentOf(machines[1])) {
		links, inode := linksAndInode(t, path)
		if other, ok := seen[inode]; ok || links != 1 {
			t.Errorf("%s is the inode of %q and has %d links", path, other, links)
		}
		seen[inode] = path
	}
	if len(seen) != 3 {
		t.Fatalf("%d agents were looked at", len(seen))
	}
	for _, slot := range machines {
		d.checkMounts(slot)
	}
	limits, err := os.ReadFile("/proc/" + itoa(d.sandboxOf(machines[0])) + "/limits")
	must(t, err)
	said := strings.Join(strings.Fields(string(limits)), " ")
	if !strings.Contains(said, "Max core file size 1 1 bytes") && !strings.Contains(said, "Max core file size 0 0 bytes") {
		t.Errorf("a sandbox may write core files: %s", limits)
	}
}

// The sandbox gets copies of hostd's mounts.
func (d *daemon) checkMounts(slot string) {
	d.t.Helper()
	file, err := os.Open("/proc/" + itoa(d.process.Process.Pid) + "/mountinfo")
	must(d.t, err)
	defer file.Close()
	// Only these are writable, and are charged to the workspace's quota.
	writable := map[string]bool{"root/claim/root": true, "root/claim/state": true}
	looked := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		point, below := strings.CutPrefix(fields[4], filepath.Join(d.dir, "data/slots", slot)+"/")
		if !below {
			continue
		}
		looked++
		readOnly := strings.HasPrefix(fields[5]+",", "ro,")
		if readOnly == writable[point] {
			d.t.Errorf("%s is mounted with %s", point, fields[5])
		}
	}
	if looked < 7 {
		d.t.Errorf("slot %s has %d mounts", slot, looked)
	}
}

func TestAnAgentThatWasAlteredIsNeitherGivenToASlotNorRun(t *testing.T) {
	d := newDaemon(t, nil)
	workspace, checkpoint := d.preparedCheckpoint()
	d.kill()
	kept := d.keptAgents()
	if len(kept) != 1 {
		t.Fatalf("kept are %v", kept)
	}
	whole, err := os.ReadFile(kept[0])
	must(t, err)
	before, err := os.Stat(kept[0])
	must(t, err)

	// A guest of an earlier release could write to the kept agent by its slot's hard link.
	link := d.dir + "/linked"
	must(t, os.Link(kept[0], link))
	must(t, os.Chmod(link, 0o755))
	file, err := os.OpenFile(link, os.O_RDWR, 0)
	must(t, err)
	_, err = file.WriteAt([]byte("altered"), 4096)
	must(t, err)
	must(t, file.Close())
	d.start()
	text, err := os.ReadFile(d.agentOf(d.startMachine(newID(), 1).Slot))
	must(t, err)
	if string(text) != string(whole) {
		t.Error("a new slot has an agent that was altered")
	}
	if links, _ := linksAndInode(t, kept[0]); links != 1 {
		t.Errorf("the kept agent has %d links", links)
	}

	d.kill()
	must(t, os.WriteFile(kept[0], whole, 0o755))
	must(t, os.Chtimes(kept[0], before.ModTime(), before.ModTime()))
	must(t, os.Remove(link))
	must(t, os.Link(kept[0], link))
	d.start()
	if links, _ := linksAndInode(t, kept[0]); links != 1 {
		t.Errorf("the kept agent has %d links still", links)
	}
	d.counts(d.restore(workspace, checkpoint, 2), 0)

	// hostd has no other copy of an earlier agent.
	d.kill()
	newer := d.dir + "/agent"
	must(t, os.WriteFile(newer, append(whole, "another build"...), 0o755))
	d.config["agent"] = newer
	must(t, os.WriteFile(kept[0], append(whole, "altered"...), 0o755))
	d.start()
	if refusal := d.call("POST", "/machines/restore", d.restoreRequest(workspace, checkpoint, 3), nil); refusal == nil {
		t.Error("a checkpoint is restored with an agent that was altered")
	}
}

func (d *daemon) sandboxOf(slot string) int {
	d.t.Helper()
	var record struct {
		Sandbox struct{ PID int } `json:"sandbox"`
	}
	text, err := os.ReadFile(filepath.Join(d.dir, "data/slots", slot, "slot.json"))
	must(d.t, err)
	must(d.t, json.Unmarshal(text, &record))
	return record.Sandbox.PID
}
