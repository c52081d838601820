package hostd

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func itoa(n int) string { return strconv.Itoa(n) }

func (d *daemon) tryStart() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testns.Patience(patient))
	defer cancel()
	output, err := exec.CommandContext(ctx, d.binary, "--config", d.path).CombinedOutput()
	return string(output), err
}

func (d *daemon) killSandbox(slot string) {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, "data/slots", slot, "pid"))
	must(d.t, err)
	pid, err := strconv.Atoi(string(text))
	must(d.t, err)
	must(d.t, unix.Kill(pid, unix.SIGKILL))
}

func (d *daemon) nextEvent(after int64) wire.HostEvent {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testns.Patience(patient))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("http://hostd/events?after=%d", after), nil)
	must(d.t, err)
	response, err := d.client.Do(request)
	must(d.t, err)
	defer response.Body.Close()
	reader := bufio.NewReader(response.Body)
	line := []byte("\n")
	for len(line) == 1 { // a blank line is a heartbeat
		line, err = reader.ReadBytes('\n')
		must(d.t, err)
	}
	var event wire.HostEvent
	must(d.t, json.Unmarshal(line, &event))
	return event
}

func TestADeathIsAnEventWithItsReasonAndTheDiskStays(t *testing.T) {
	d := newDaemon(t, nil)
	m := d.startMachine(newID(), 1)
	d.run(m, "echo kept > /home/file; sync /home/file")
	began := time.Now()
	d.killSandbox(m.Slot)
	event := d.nextEvent(0)
	t.Logf("a death is known after %d ms", time.Since(began).Milliseconds())
	if event.Kind != "died" || event.Owner() != m.Owner() || event.Reason != "killed" {
		t.Fatalf("the event is %+v", event)
	}
	if last := event.Counters; last == nil || last.Fence != m.Fence || last.CPUUsec == 0 || last.RanMS == 0 {
		t.Fatalf("the last counters are %+v", last)
	}
	again := d.startRequest(m.Owner(), 2)
	again.FromDisk = m.Disk
	var second wire.Machine
	d.ok(d.call("POST", "/machines/start", again, &second))
	if text := d.run(second, "cat /home/file"); text != "kept" {
		t.Fatalf("the file holds %q", text)
	}
	d.stop(second)
	if last := d.inventory().LastEvent; last != 1 {
		t.Fatalf("a stop that was asked for is event %d", last)
	}
}

func TestFencesOrderTheAttemptsOfAWorkspace(t *testing.T) {
	d := newDaemon(t, nil)
	workspace := newID()
	old := d.startRequest(workspace, 1)
	request := d.startRequest(workspace, 1)
	answers := make(chan wire.Machine, 4)
	for range 4 {
		go func() {
			var m wire.Machine
			d.call("POST", "/machines/start", request, &m)
			answers <- m
		}()
	}
	first := <-answers
	for range 3 {
		if other := <-answers; !reflect.DeepEqual(other, first) || first.Slot == "" {
			t.Fatalf("one step made %+v and %+v", first, other)
		}
	}
	d.refused(d.call("POST", "/machines/start", old, nil), "fenced")
	d.refused(d.call("POST", "/machines/start", d.startRequest(workspace, 2), nil), "already_running")
	d.kill()
	d.start()
	d.refused(d.call("POST", "/machines/stop", wire.StopRequest{Fence: old.Fence}, nil), "fenced")
	late := wire.StopRequest{Fence: d.fence(workspace, 1), MachineEpoch: 7}
	d.ok(d.call("POST", "/machines/stop", late, nil))
	if d.machineOf(workspace) == nil {
		t.Fatal("a stop of another epoch hit the machine")
	}
	deleted := wire.Fenced{Fence: d.fence(workspace, 1)}
	d.ok(d.call("POST", "/subjects/delete", deleted, nil))
	d.kill()
	d.start()
	d.refused(d.call("POST", "/machines/start", request, nil), "fenced")
}

func TestACheckpointThatChangedIsCorruptAndAnOlderOneIsNot(t *testing.T) {
	d := withOthers(t)
	workspace, older := d.preparedCheckpoint()
	m := d.restore(workspace, older, 2)
	newer := newID()
	d.checkpoint(m, newer, "paused")
	d.stop(m)
	other, otherID := d.preparedCheckpoint()
	dir := func(workspace, id string) string {
		return filepath.Join("/proc", itoa(d.process.Process.Pid), "root", d.dir, "pool/ws", workspace, "checkpoints", id)
	}
	for name, damage := range map[string]func(){
		"state":             func() { flip(t, dir(workspace, newer)+"/checkpoint.img", 1000) },
		"pages":             func() { flip(t, dir(workspace, newer)+"/pages.img", 4096) },
		"index":             func() { flip(t, dir(workspace, newer)+"/pages_meta.img", 40) },
		"manifest":          func() { flip(t, dir(workspace, newer)+"/manifest.json", 60) },
		"cut":               func() { must(t, os.Truncate(dir(workspace, newer)+"/pages.img", 8192)) },
		"missing":           func() { must(t, os.Remove(dir(workspace, newer)+"/pages_meta.img")) },
		"another's":         func() { replace(t, dir(workspace, newer), dir(other, otherID), "manifest.json") },
		"older":             func() { replace(t, dir(workspace, newer), dir(workspace, older), "manifest.json") },
		"another's content": func() { replace(t, dir(workspace, newer), dir(other, otherID), "checkpoint.img") },
		"link": func() {
			must(t, os.Rename(dir(workspace, newer)+"/pages.img", dir(workspace, newer)+"/moved"))
			must(t, os.Symlink("moved", dir(workspace, newer)+"/pages.img"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			outer := d.t
			defer func() { d.t = outer }()
			d.t = t
			kept := t.TempDir()
			must(t, exec.Command("cp", "-a", dir(workspace, newer)+"/checkpoint.img", dir(workspace, newer)+"/pages.img",
				dir(workspace, newer)+"/pages_meta.img", dir(workspace, newer)+"/manifest.json", kept).Run())
			damage()
			d.refused(d.call("POST", "/machines/restore", d.restoreRequest(workspace, newer, 3), nil), "checkpoint_corrupt")
			for _, name := range []string{"checkpoint.img", "pages.img", "pages_meta.img", "manifest.json"} {
				must(t, os.RemoveAll(dir(workspace, newer)+"/"+name))
				must(t, exec.Command("cp", "-a", kept+"/"+name, dir(workspace, newer)+"/"+name).Run())
			}
		})
	}
	d.refused(d.call("POST", "/machines/restore", d.restoreRequest(workspace, newID(), 3), nil), "not_found")
	// Copies have other inodes and times, so hostd reads them again, and the restore succeeds.
	resumed := d.restore(workspace, newer, 3)
	d.counts(resumed, 0)
	d.stop(resumed)
	d.counts(d.restore(workspace, older, 4), 0)
}

func flip(t *testing.T, path string, offset int64) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	b := make([]byte, 1)
	_, err = file.ReadAt(b, offset)
	must(t, err)
	b[0] ^= 4
	_, err = file.WriteAt(b, offset)
	must(t, err)
}

func replace(t *testing.T, target, source, name string) {
	t.Helper()
	must(t, os.Remove(target+"/"+name))
	must(t, exec.Command("cp", source+"/"+name, target+"/"+name).Run())
}

func TestAFullPoolLeavesTheGuestRunning(t *testing.T) {
	d := newDaemon(t, nil)
	m := d.startMachine(newID(), 1)
	d.begin(m, "counter", counter)
	at := d.counts(m, 0)
	inside := filepath.Join("/proc", itoa(d.process.Process.Pid), "root", d.dir, "pool")
	balloon := filepath.Join(inside, "balloon")
	free := d.inventory().Capacity.PoolFreeBytes
	file, err := os.Create(balloon)
	must(t, err)
	defer file.Close()
	must(t, unix.Fallocate(int(file.Fd()), 0, 0, free-(100<<20)))
	request := wire.CheckpointRequest{Fence: d.fence(m.Owner(), 1), CheckpointID: newID(), Then: thenRunning}
	d.refused(d.call("POST", "/machines/checkpoint", request, nil), "no_space")
	at = d.counts(m, at)
	must(t, os.Remove(balloon))
	file.Close()
	request.Fence = d.fence(m.Owner(), 1)
	d.ok(d.call("POST", "/machines/checkpoint", request, nil))
	d.counts(m, at)
}

func TestASaveThatFailsHalfWayLeavesTheGuestRunning(t *testing.T) {
	d := newDaemon(t, nil)
	m := d.startMachine(newID(), 1)
	d.begin(m, "counter", counter)
	// Incompressible data makes the memory image larger than the free space.
	d.run(m, "head -c 100000000 /dev/urandom > /dev/shm/ballast")
	at := d.counts(m, 0)
	inside := filepath.Join("/proc", itoa(d.process.Process.Pid), "root", d.dir, "pool")
	d.setFailpoints(Failpoints{"checkpoint.save": "stop"})
	request := wire.CheckpointRequest{Fence: d.fence(m.Owner(), 1), CheckpointID: newID(), Then: thenPaused}
	answered := make(chan *wire.HostError, 1)
	go func() { answered <- d.call("POST", "/machines/checkpoint", request, nil) }()
	eventually(t, "hostd stands still before the save", func() bool { return d.isStopped() })
	fill(t, filepath.Join(inside, "balloon"))
	must(t, d.process.Process.Signal(unix.SIGCONT))
	d.refused(<-answered, "no_space")
	must(t, os.Remove(filepath.Join(inside, "balloon")))
	d.counts(m, at)
	if n := len(d.filesOf(m.Owner()).Checkpoints); n != 0 {
		t.Fatalf("%d checkpoints", n)
	}
}

func (d *daemon) isStopped() bool {
	text, err := os.ReadFile("/proc/" + itoa(d.process.Process.Pid) + "/stat")
	return err == nil && len(text) > 0 && containsFold(string(text), ") t ")
}

func fill(t *testing.T, path string) {
	t.Helper()
	var stat unix.Statfs_t
	must(t, unix.Statfs(filepath.Dir(path), &stat))
	file, err := os.Create(path)
	must(t, err)
	defer file.Close()
	size := int64(stat.Bavail)*stat.Bsize - (30 << 20)
	must(t, unix.Fallocate(int(file.Fd()), 0, 0, size))
}

func TestAFrozenMachineIsThawedForItsCheckpointAndFrozenAgain(t *testing.T) {
	d := withOthers(t)
	m := d.startMachine(newID(), 1)
	d.begin(m, "counter", counter)
	d.counts(m, 0)
	d.ok(d.call("POST", "/machines/freeze", wire.Fenced{Fence: d.fence(m.Owner(), 1)}, nil))
	if found := d.machineOf(m.Owner()); found.State != "frozen" {
		t.Fatalf("the machine is %s", found.State)
	}
	d.checkpoint(m, newID(), "running")
	if found := d.machineOf(m.Owner()); found.State != "frozen" {
		t.Fatalf("after the checkpoint the machine is %s", found.State)
	}
	d.ok(d.call("POST", "/machines/thaw", wire.Fenced{Fence: d.fence(m.Owner(), 1)}, nil))
	d.counts(m, 0)
	d.ok(d.call("POST", "/machines/freeze", wire.Fenced{Fence: d.fence(m.Owner(), 1)}, nil))
	d.stop(m)
}

// "000" means that curl got no answer.
func (d *daemon) askAs(uid uint32) string {
	command := exec.Command("curl", "-s", "-m", "60", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", d.dir+"/hostd.sock", "http://hostd/healthz")
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	output, _ := command.Output() // a failed call is a valid outcome here
	return string(output)
}

// A patch in machine/runsc prevents this: a second freeze left a stale notification in the kernel's count. An idle
// process's next system call then ended the process or the whole machine.
func TestAnIdleGuestSurvivesBeingFrozenManyTimes(t *testing.T) {
	d := withOthers(t)
	m := d.startMachine(newID(), 1)
	d.begin(m, "sleeper", "sleep 2; head -c 3000000 /dev/zero | sha256sum; /bin/true; echo awake")
	for range 8 {
		d.ok(d.call("POST", "/machines/freeze", wire.Fenced{Fence: d.fence(m.Owner(), 1)}, nil))
		d.ok(d.call("POST", "/machines/thaw", wire.Fenced{Fence: d.fence(m.Owner(), 1)}, nil))
	}
	eventually(t, "the sleeper ends", func() bool { return d.session(m, "sleeper").State != "running" })
	if record := d.session(m, "sleeper"); record.ExitCode == nil || *record.ExitCode != 0 {
		text, _ := json.Marshal(record)
		t.Fatalf("the sleeper ended as %s", text)
	}
}
