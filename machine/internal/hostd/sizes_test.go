package hostd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestAMachineStaysWithinItsDiskMemoryAndProcessors(t *testing.T) {
	d := withOthers(t)
	m := d.startMachine(newID(), 1)
	// The output is on the same full disk, so the script removes the file before it prints.
	text := d.run(m, "e=$(dd if=/dev/zero of=/home/big bs=1M count=1200 2>&1); s=$(stat -c %s /home/big); rm /home/big; echo $e; echo $s")
	if lines := strings.Split(text, "\n"); !strings.Contains(lines[0], "quota") || len(lines[len(lines)-1]) > 10 {
		t.Errorf("the disk has no end: %s", text)
	}
	for _, file := range []struct{ v1, v2, want string }{
		{"memory.limit_in_bytes", "memory.max", "536870912"}, {"pids.max", "pids.max", "16384"}, {"cpu.cfs_quota_us", "cpu.max", "100000"},
	} {
		text, err := os.ReadFile(d.controlFile(m, file.v1, file.v2))
		must(t, err)
		if got := strings.Fields(string(text))[0]; got != file.want {
			t.Errorf("%s is %s, not %s", file.v1, got, file.want)
		}
	}
	d.refused(d.call("POST", "/disks/measure", wire.MeasureRequest{Subjects: []wire.Subject{m.Subject, wire.Workspace("../" + m.ID)}}, nil), "bad_request")
	d.refused(d.call("POST", "/disks/measure", wire.MeasureRequest{Subjects: make([]wire.Subject, wire.MeasuresMax+1)}, nil), "bad_request")
	d.stop(m)
}

func TestAMachinePastItsMemoryIsReportedAsOutOfMemory(t *testing.T) {
	d := newDaemon(t, nil)
	m := d.startMachine(newID(), 1)
	// Far below the guest's memory size, so that the agent ends no process first.
	must(t, os.WriteFile(d.controlFile(m, "memory.limit_in_bytes", "memory.max"), []byte("120000000"), 0))
	d.begin(m, "eater", "head -c 200M /dev/zero > /dev/shm/a; head -c 100M /dev/zero > /tmp/b")
	event := d.nextEvent(0)
	if event.Owner() != m.Owner() || event.Reason != "out_of_memory" {
		t.Fatalf("the event is %+v", event)
	}
}

func (d *daemon) controlFile(m wire.Machine, v1, v2 string) string {
	dir := filepath.Dir(m.FreezerFile)
	if strings.HasSuffix(m.FreezerFile, "cgroup.freeze") {
		return filepath.Join(dir, v2)
	}
	controller, _, _ := strings.Cut(v1, ".")
	return filepath.Join(strings.Replace(dir, "/freezer/", "/"+controller+"/", 1), v1)
}

func TestAMachineOfAnotherSizeTakesAWaitingSlotAndItsCheckpointGrows(t *testing.T) {
	d := newDaemon(t, nil)
	ready := func() bool { i := d.inventory(); return i.Slots == 1 && i.Shells == 1 }
	eventually(t, "a slot and a shell are ready", ready)
	waiting := d.waitingSlots()
	workspace := newID()
	request := d.startRequest(workspace, 1)
	request.Resources.MemoryMiB = 384
	var m wire.Machine
	began := time.Now()
	d.ok(d.call("POST", "/machines/start", request, &m))
	t.Logf("start in a slot of another size: %d ms", time.Since(began).Milliseconds())
	if !slices.Contains(waiting, m.Slot) {
		t.Errorf("slot %s did not wait: %v", m.Slot, waiting)
	}
	if text := d.run(m, "awk '/MemTotal/{print $2}' /proc/meminfo; free -k | awk '/Mem:/{print $2}'"); text != "393216\n393216" {
		t.Errorf("the guest sees %q KiB of memory", text)
	}
	d.run(m, "head -c 120000000 /dev/urandom > /dev/shm/ballast; sha256sum /dev/shm/ballast > /home/sum")
	id := newID()
	d.checkpoint(m, id, "paused")
	d.stop(m)
	small := d.restoreRequest(workspace, id, 2)
	small.Resources.MemoryMiB = 64
	d.refused(d.call("POST", "/machines/restore", small, nil), "invalid_resources")
	large := d.restoreRequest(workspace, id, 2)
	large.Resources.MemoryMiB = 512
	eventually(t, "a slot and a shell are ready", ready)
	waiting = d.waitingSlots()
	began = time.Now()
	d.ok(d.call("POST", "/machines/restore", large, &m))
	t.Logf("restore of 120 MB in a shell of another size: %d ms", time.Since(began).Milliseconds())
	if !slices.Contains(waiting, m.Slot) {
		t.Errorf("shell %s did not wait: %v", m.Slot, waiting)
	}
	if text := d.run(m, "sha256sum -c --status /home/sum && awk '/MemTotal/{print $2}' /proc/meminfo"); text != "524288" {
		t.Fatalf("after the restore: %q", text)
	}
	huge := d.startRequest(newID(), 1)
	huge.Resources.MemoryMiB = 1800
	d.refused(d.call("POST", "/machines/start", huge, nil), "no_capacity")
	huge = d.startRequest(newID(), 1)
	huge.Resources.MemoryMiB = 4000
	d.refused(d.call("POST", "/machines/start", huge, nil), "invalid_resources")
}

func TestAStartWithoutASlotTakesAShell(t *testing.T) {
	d := newDaemon(t, func(config map[string]any) {
		config["slots"] = map[string]any{"count": 0, "cpu_millis": 1000, "memory_mib": 256}
	})
	ready := func() bool { return d.inventory().Shells == 1 }
	eventually(t, "a shell is ready", ready)
	waiting := d.waitingSlots()
	d.prepared(waiting)
	began := time.Now()
	m := d.startMachine(newID(), 1)
	t.Logf("start in a shell: %d ms", time.Since(began).Milliseconds())
	if !slices.Contains(waiting, m.Slot) {
		t.Errorf("shell %s did not wait: %v", m.Slot, waiting)
	}
	d.begin(m, "counter", counter)
	at := d.counts(m, 0)
	id := newID()
	d.checkpoint(m, id, "paused")
	d.stop(m)
	d.counts(d.restore(m.Owner(), id, 2), at)
}

// A sandbox that is prepared for a restore has its seccomp filters.
func (d *daemon) prepared(slots []string) {
	d.t.Helper()
	for _, slot := range slots {
		record, err := d.recordOf(slot)
		must(d.t, err)
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", record.Sandbox.PID))
		must(d.t, err)
		if !strings.Contains(string(status), "\nSeccomp:\t2\n") {
			d.t.Errorf("shell %s has no filters yet", slot)
		}
	}
}

func (d *daemon) waitingSlots() []string {
	all, err := os.ReadDir(d.seenByHostd("data/slots"))
	must(d.t, err)
	claimed := map[string]bool{}
	for _, m := range d.inventory().Machines {
		claimed[m.Slot] = true
	}
	var names []string
	for _, entry := range all {
		if !claimed[entry.Name()] {
			names = append(names, entry.Name())
		}
	}
	return names
}

func TestHostdDiesWhileASandboxSavesAndTheGuestRunsOn(t *testing.T) {
	d := newDaemon(t, nil)
	m := d.startMachine(newID(), 1)
	d.run(m, "head -c 100000000 /dev/urandom > /dev/shm/ballast")
	d.begin(m, "counter", counter)
	at := d.counts(m, 0)
	for _, delay := range testns.Depth([]time.Duration{5, 40, 90}, []time.Duration{5, 20, 40, 60, 90, 120}) {
		go d.call("POST", "/machines/checkpoint", wire.CheckpointRequest{Fence: d.fence(m.Owner(), 1), CheckpointID: newID(), Then: "paused"}, nil)
		time.Sleep(delay * time.Millisecond)
		d.kill()
		d.start()
		d.ok(d.call("POST", "/machines/unpause", wire.Fenced{Fence: d.fence(m.Owner(), 1)}, nil))
		at = d.counts(m, at)
	}
	id := newID()
	d.checkpoint(m, id, "paused")
	d.stop(m)
	d.counts(d.restore(m.Owner(), id, 2), 0)
}

func TestACheckpointOutlivesTheAgentItWasWrittenWithAndRefusesAnotherEngine(t *testing.T) {
	d := newDaemon(t, nil)
	workspace, id := d.preparedCheckpoint()
	d.kill()
	newer := d.dir + "/agent"
	binary, err := os.ReadFile(os.Getenv(agentVariable))
	must(t, err)
	must(t, os.WriteFile(newer, append(binary, "another build"...), 0o755))
	d.config["agent"] = newer
	d.start()
	resumed := d.restore(workspace, id, 2)
	d.counts(resumed, 0)
	fresh := d.startMachine(newID(), 1)
	for slot, want := range map[string][]byte{resumed.Slot: binary, fresh.Slot: append(binary, "another build"...)} {
		text, err := os.ReadFile(d.agentOf(slot))
		must(t, err)
		if !bytes.Equal(text, want) {
			t.Errorf("slot %s has another agent", slot)
		}
	}
	d.stop(fresh)
	d.stop(resumed)

	path := d.seenByHostd("pool/ws", workspace, "checkpoints", id, manifestName)
	for _, change := range []func(*manifest){
		func(m *manifest) { m.Engine = "another" },
		func(m *manifest) { m.Processor = append(m.Processor, "another") },
		func(m *manifest) { m.Processor, m.CPUFeatures = nil, "another" },
		func(m *manifest) { m.SpecVersion++ },
	} {
		d.reseal(path, change)
		d.refused(d.call("POST", "/machines/restore", d.restoreRequest(workspace, id, 3), nil), "checkpoint_incompatible")
	}
}

func (d *daemon) reseal(path string, change func(*manifest)) {
	d.t.Helper()
	key, err := os.ReadFile(d.dir + "/data/keys/host.key")
	must(d.t, err)
	whole, err := os.ReadFile(path)
	must(d.t, err)
	var file sealed
	must(d.t, json.Unmarshal(whole, &file))
	var m manifest
	must(d.t, json.Unmarshal(file.Manifest, &m))
	change(&m)
	text, err := json.Marshal(m)
	must(d.t, err)
	whole, err = json.Marshal(sealed{Manifest: text, Seal: (&Host{key: key}).seal(text)})
	must(d.t, err)
	must(d.t, os.WriteFile(path, whole, 0o600))
}

func TestOnlyRootAndTheConfiguredUserAreAnswered(t *testing.T) {
	d := newDaemon(t, func(config map[string]any) { config["socket_uid"], config["socket_gid"] = 65534, 65534 })
	must(t, os.Chmod(d.dir, 0o711))
	if got := d.askAs(65534); got != "200" {
		t.Errorf("the configured user gets %q", got)
	}
	// hostd must check the peer's uid itself, without the socket's mode.
	must(t, os.Chmod(d.dir+"/hostd.sock", 0o666))
	if got := d.askAs(65533); got == "200" {
		t.Error("a stranger is answered")
	}
	var stat unix.Stat_t
	must(t, unix.Stat(d.dir+"/data/keys/host.key", &stat))
	if stat.Mode&0o777 != 0o600 {
		t.Errorf("the host's key has mode %o", stat.Mode&0o777)
	}
}

func TestTheCellThawsAMachineByItsFileAndALimitOutlivesACutShortSave(t *testing.T) {
	d := newDaemon(t, func(config map[string]any) { config["socket_uid"] = 65534 })
	m := d.startMachine(newID(), 1)
	var stat unix.Stat_t
	must(t, unix.Stat(m.FreezerFile, &stat))
	if stat.Uid != 65534 {
		t.Errorf("the freezer file belongs to %d", stat.Uid)
	}
	d.setFailpoints(Failpoints{"checkpoint.snapshot": "kill9"})
	request := wire.CheckpointRequest{Fence: d.fence(m.Owner(), 1), CheckpointID: newID(), Then: "paused"}
	d.restartAfter("checkpoint.snapshot", d.call("POST", "/machines/checkpoint", request, nil))
	text, err := os.ReadFile(d.controlFile(m, "cpu.cfs_quota_us", "cpu.max"))
	must(t, err)
	if quota := strings.Fields(string(text))[0]; quota != "100000" {
		t.Errorf("the processor limit is %s", quota)
	}
	text, err = os.ReadFile(d.controlFile(m, "cpu.shares", "cpu.weight"))
	must(t, err)
	if weight := strings.TrimSpace(string(text)); weight != "1024" && weight != "100" {
		t.Errorf("the machine weighs %s", weight)
	}
}
