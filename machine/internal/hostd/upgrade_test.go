package hostd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// gVisor compares versions, so a binary with another version is another engine.
func (d *daemon) otherEngine(version string) (path, other string) {
	d.t.Helper()
	binary, err := os.ReadFile(os.Getenv(runscVariable))
	must(d.t, err)
	last := "x"
	if strings.HasSuffix(version, last) {
		last = "y"
	}
	other = version[:len(version)-1] + last
	renamed := bytes.ReplaceAll(binary, []byte(version), []byte(other))
	if bytes.Equal(renamed, binary) {
		d.t.Fatalf("the engine does not contain its version %s", version)
	}
	path = d.dir + "/runsc-" + other
	must(d.t, os.WriteFile(path, renamed, 0o755))
	return path, other
}

func givenEngine(t *testing.T, config map[string]any) {
	binary, err := os.ReadFile(os.Getenv(runscVariable))
	must(t, err)
	path := filepath.Join(filepath.Dir(config["socket"].(string)), "runsc-given")
	must(t, os.WriteFile(path, binary, 0o755))
	config["runsc"] = path
}

func TestACheckpointGoesOnUnderTheEngineThatWroteItWhenHostdHasAnother(t *testing.T) {
	d := newDaemon(t, func(config map[string]any) { givenEngine(t, config); config["sweep_seconds"] = 1 })
	asleep, id := d.preparedCheckpoint()
	awake := d.startMachine(newID(), 1)
	d.begin(awake, "counter", counter)
	first := d.inventory().Engine
	if awake.Engine != first || !slices.Equal(d.inventory().Engines, []string{first}) {
		t.Fatalf("the machine runs under %s; kept are %v", awake.Engine, d.inventory().Engines)
	}
	path, second := d.otherEngine(first)
	d.kill()
	must(t, os.Remove(d.config["runsc"].(string)))
	d.config["runsc"] = path
	d.start()
	inventory := d.inventory()
	if inventory.Engine != second || !slices.Equal(inventory.Engines, sorted(first, second)) {
		t.Fatalf("hostd has %s and keeps %v", inventory.Engine, inventory.Engines)
	}
	eventually(t, "a shell of the new engine waits", func() bool { return d.inventory().Shells == 1 })

	fresh := d.startMachine(newID(), 1)
	if fresh.Engine != second {
		t.Fatalf("a new machine runs under %s", fresh.Engine)
	}
	resumed := d.restore(asleep, id, 2)
	at := d.counts(resumed, 0)
	if resumed.Engine != first {
		t.Fatalf("the resumed machine runs under %s", resumed.Engine)
	}
	next := newID()
	if info := d.checkpoint(resumed, next, "paused"); info.Engine != first {
		t.Fatalf("its next checkpoint names %s", info.Engine)
	}
	d.stop(resumed)
	d.kill()
	d.start()
	d.counts(d.restore(asleep, next, 3), at)

	child := newID()
	capture := wire.CheckpointRequest{Fence: d.fence(awake.Owner(), 1), CheckpointID: newID(), Into: into(child), IntoFence: 1, Then: "running"}
	d.ok(d.call("POST", "/machines/checkpoint", capture, nil))
	fork := d.restore(child, capture.CheckpointID, 1)
	d.counts(fork, 0)
	if fork.Engine != first || d.machineOf(awake.Owner()).Engine != first {
		t.Fatalf("the fork runs under %s", fork.Engine)
	}
	copied := newID()
	d.ok(d.call("POST", "/checkpoints/clone", wire.CloneRequest{Fence: d.fence(copied, 1), Source: wire.Workspace(asleep), SourceCheckpointID: next, CheckpointID: next}, nil))

	for _, workspace := range []string{asleep, awake.Owner(), child} {
		d.deleteWorkspace(workspace)
	}
	d.sweeps()
	if kept := d.inventory().Engines; !slices.Equal(kept, sorted(first, second)) {
		t.Fatalf("a checkpoint names %s, and kept are %v", first, kept)
	}
	d.deleteWorkspace(copied)
	eventually(t, "the old engine is collected", func() bool { return slices.Equal(d.inventory().Engines, []string{second}) })
	if text := d.run(fresh, "echo hello"); text != "hello" {
		t.Fatalf("the machine of the new engine says %q", text)
	}
}

func TestACheckpointWhoseEngineIsNotKeptIsRefusedAndWholeAgainWithIt(t *testing.T) {
	d := newDaemon(t, nil)
	workspace, id := d.preparedCheckpoint()
	first := d.inventory().Engine
	path, _ := d.otherEngine(first)
	d.kill()
	d.config["runsc"] = path
	kept := d.dir + "/data/engines/" + first
	must(t, os.Rename(kept, d.dir+"/elsewhere"))
	d.start()
	d.refused(d.call("POST", "/machines/restore", d.restoreRequest(workspace, id, 2), nil), "checkpoint_incompatible")
	if disks := d.filesOf(workspace).Disks; len(disks) != 1 {
		t.Fatalf("the refused restore left the disks %v", disks)
	}
	must(t, os.Rename(d.dir+"/elsewhere", kept))
	d.counts(d.restore(workspace, id, 3), 0)
}

// The old text must occur once; the file is relative to this folder.
type edit struct{ file, old, new string }

func (d *daemon) builtAs(program, oldest, newest string) string {
	d.t.Helper()
	const file = "../wire/generated_agent.go"
	return d.built(program, program+"-"+oldest+"-"+newest,
		edit{file, fmt.Sprintf("AgentProtocol    = %d", wire.AgentProtocol), "AgentProtocol    = " + newest},
		edit{file, fmt.Sprintf("AgentProtocolMin = %d", wire.AgentProtocolMin), "AgentProtocolMin = " + oldest})
}

func (d *daemon) built(program, name string, edits ...edit) string {
	d.t.Helper()
	replaced := map[string]string{}
	for i, change := range edits {
		absolute, err := filepath.Abs(change.file)
		must(d.t, err)
		path := replaced[absolute]
		if path == "" {
			path = absolute
		}
		source, err := os.ReadFile(path)
		must(d.t, err)
		if strings.Count(string(source), change.old) != 1 {
			d.t.Fatalf("%s does not have %q once", change.file, change.old)
		}
		replaced[absolute] = fmt.Sprintf("%s/%s-%d.go", d.dir, name, i)
		must(d.t, os.WriteFile(replaced[absolute], []byte(strings.Replace(string(source), change.old, change.new, 1)), 0o600))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	must(d.t, err)
	must(d.t, os.WriteFile(d.dir+"/overlay.json", overlay, 0o600))
	path := d.dir + "/" + name
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-overlay", d.dir+"/overlay.json", "-o", path, "github.com/berth-dev/berth/machine/cmd/"+program)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		d.t.Fatalf("%v: %s", err, output)
	}
	return path
}

func TestAnAgentOfAnOlderProtocolIsToldApartAndOneThatNobodySpeaksToIsRefused(t *testing.T) {
	d := newDaemon(t, nil)
	workspace, id := d.preparedCheckpoint()
	ancient, ancientID := d.preparedCheckpoint()
	d.kill()
	old := d.binary
	const newer = wire.AgentProtocol + 1
	d.config["agent"], d.binary = d.builtAs("agent", "2", itoa(newer)), d.builtAs("hostd", "2", itoa(newer))
	d.start()
	fresh := d.startMachine(newID(), 1)
	resumed := d.restore(workspace, id, 2)
	at := d.counts(resumed, 0)
	if fresh.AgentProtocol != newer || resumed.AgentProtocol != wire.AgentProtocol {
		t.Fatalf("a new machine's agent speaks %d, the resumed one's %d", fresh.AgentProtocol, resumed.AgentProtocol)
	}
	next := newID()
	d.checkpoint(resumed, next, "paused")
	d.stop(resumed)
	d.kill()
	d.start()
	resumed = d.restore(workspace, next, 3)
	d.counts(resumed, at)
	if resumed.AgentProtocol != wire.AgentProtocol || d.machineOf(fresh.Owner()).AgentProtocol != newer {
		t.Fatalf("after another suspend the agent speaks %d", resumed.AgentProtocol)
	}
	path := filepath.Join("/proc", itoa(d.process.Process.Pid), "root", d.dir, "pool/ws", ancient, "checkpoints", ancientID, manifestName)
	d.reseal(path, func(m *manifest) { m.Protocol = 0 }) // as in manifests without a protocol, which means 1
	d.refused(d.call("POST", "/machines/restore", d.restoreRequest(ancient, ancientID, 2), nil), "checkpoint_incompatible")

	// hostd must not put an agent that is newer than hostd into a sandbox.
	d.deleteWorkspace(workspace)
	d.deleteWorkspace(fresh.Owner())
	d.kill()
	d.binary = old
	d.start()
	d.refused(d.call("POST", "/machines/start", d.startRequest(newID(), 1), nil), "start_failed")
}

func (d *daemon) deleteWorkspace(workspace string) {
	d.t.Helper()
	d.ok(d.call("POST", "/subjects/delete", wire.Fenced{Fence: d.fence(workspace, 9)}, nil))
}

func (d *daemon) sweeps() {
	d.t.Helper()
	for range 2 { // a collection that had already begun may have missed later changes
		marker := d.dir + "/data/engines/unneeded"
		must(d.t, os.Mkdir(marker, 0o700))
		eventually(d.t, "what nothing needs is collected", func() bool { _, err := os.Stat(marker); return os.IsNotExist(err) })
	}
}

func sorted(names ...string) []string {
	slices.Sort(names)
	return names
}
