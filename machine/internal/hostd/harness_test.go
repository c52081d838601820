package hostd

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

type daemon struct {
	t *testing.T
	*running
	owners map[string]bool // subjects that this test has used
}

type running struct {
	dir      string
	binary   string
	config   map[string]any
	path     string
	layer    string
	other    []string // layers of another template, if the test made one
	process  *exec.Cmd
	client   *http.Client
	nextStep int
	mu       sync.Mutex
}

// newDaemon fails the test if hostd leaves anything behind. Parallel daemons have their own names, networks and
// directories; TypeScript tests use other networks.
func newDaemon(t *testing.T, change func(config map[string]any)) *daemon {
	t.Helper()
	testns.Needs(t, runscVariable, agentVariable, layerVariable)
	t.Parallel()
	d := makeDaemon(t, change)
	t.Cleanup(d.clean)
	d.start()
	return d
}

func makeDaemon(t *testing.T, change func(config map[string]any)) *daemon {
	t.Helper()
	binary, err := hostdBinary()
	must(t, err)
	dir, err := os.MkdirTemp("", "hostd-")
	must(t, err)
	number := daemons.Add(1)
	d := &daemon{t: t, running: &running{dir: dir, binary: binary, path: filepath.Join(dir, configName)}, owners: map[string]bool{}}
	d.config = map[string]any{
		"instance": fmt.Sprintf("%04x", uint16(number)), "data_dir": dir + "/data", "run_dir": dir + "/run", "socket": dir + "/hostd.sock",
		"socket_uid": 0, "socket_gid": 0, "runsc": os.Getenv(runscVariable), "agent": os.Getenv(agentVariable),
		"machine_network": fmt.Sprintf("10.%d.%d.0/22", 250+number%6, number/6%64*4), "uplink": "none", "resolvers": []string{},
		"pool":       map[string]any{"image": dir + "/pool.img", "mount": dir + "/pool", "size_bytes": 3 << 30, "reserve_bytes": 128 << 20},
		"layers_dir": dir + "/layers", "slots": map[string]any{"count": 1, "cpu_millis": 1000, "memory_mib": 256},
		"shells": map[string]any{"count": 1}, "capacity": map[string]any{"cpu_millis": 4000, "memory_mib": 2048}, "memory_headroom_mib": 256,
	}
	if change != nil {
		change(d.config)
	}
	d.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", dir+"/hostd.sock")
	}}}
	d.layer = d.addSharedLayer()
	return d
}

func (d *daemon) start() {
	d.t.Helper()
	text, err := json.Marshal(d.config)
	must(d.t, err)
	must(d.t, os.WriteFile(d.path, text, 0o600))
	log, err := os.OpenFile(d.dir+"/hostd.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(d.t, err)
	defer log.Close()
	d.process = exec.Command(d.binary, "--config", d.path, "--enable-failpoints")
	d.process.Stdout, d.process.Stderr = log, log
	began := time.Now()
	must(d.t, d.process.Start())
	for deadline := began.Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		response, err := d.client.Get("http://hostd/healthz")
		if err == nil {
			response.Body.Close()
			break
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("hostd does not answer; its log ends: %s", d.logTail())
		}
	}
	d.t.Logf("hostd answers %d ms after its start", time.Since(began).Milliseconds())
}

func (d *daemon) kill() {
	d.t.Helper()
	must(d.t, d.process.Process.Kill())
	d.wait()
}

func (d *running) wait() {
	_ = d.process.Wait() // the test caused the exit, so its status does not matter
	d.client.CloseIdleConnections()
}

func (d *daemon) logTail() string {
	text, _ := os.ReadFile(d.dir + "/hostd.log")
	return string(text[max(0, len(text)-3000):])
}

func (d *daemon) clean() {
	if d.t.Failed() {
		d.t.Logf("hostd's log ends:\n%s", d.logTail())
	}
	for _, wrong := range d.remove() {
		d.t.Error(wrong)
	}
}

func (d *running) remove() (wrong []string) {
	if d.process != nil && d.process.ProcessState == nil {
		d.process.Process.Signal(unix.SIGCONT)
		d.process.Process.Signal(unix.SIGTERM)
		d.wait()
	}
	output, err := exec.Command(d.binary, "clean", "--config", d.path).CombinedOutput()
	if err != nil {
		wrong = append(wrong, fmt.Sprintf("hostd clean: %v: %s", err, output))
	}
	if log, _ := os.ReadFile(d.dir + "/hostd.log"); bytes.Contains(log, []byte("DATA RACE")) {
		wrong = append(wrong, fmt.Sprintf("hostd has a race:\n%s", log[bytes.Index(log, []byte("DATA RACE")):]))
	}
	if err := d.removeSharedLayer(); err != nil {
		wrong = append(wrong, fmt.Sprintf("unmounting the layer: %v", err))
	}
	for _, left := range d.leftovers() {
		wrong = append(wrong, "left behind: "+left)
	}
	if err := os.RemoveAll(d.dir); err != nil {
		wrong = append(wrong, err.Error())
	}
	return wrong
}

func (d *running) leftovers() []string {
	instance := d.config["instance"].(string)
	var left []string
	matches, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range matches {
		line, _ := os.ReadFile(path)
		if bytes.Contains(line, []byte("berth-"+instance)) || bytes.Contains(line, []byte(d.dir)) {
			left = append(left, "process "+path+": "+strings.ReplaceAll(string(line), "\x00", " "))
		}
		left = append(left, d.mountsOf(filepath.Dir(path))...)
	}
	groups, _ := exec.Command("find", "/sys/fs/cgroup", "-type", "d", "-name", "berth-"+instance).Output()
	left = append(left, strings.Fields(string(groups))...)
	links, _ := filepath.Glob("/sys/class/net/b" + instance + "*")
	loops, _ := exec.Command("losetup", "-a").Output()
	if bytes.Contains(loops, []byte(d.dir)) {
		left = append(left, string(loops))
	}
	return append(left, links...)
}

func (d *running) mountsOf(process string) (found []string) {
	namespace, _ := os.Readlink(process + "/ns/mnt")
	own, _ := os.Readlink("/proc/self/ns/mnt")
	mounts, _ := os.ReadFile(process + "/mountinfo")
	for mount := range strings.Lines(string(mounts)) {
		if strings.Contains(mount, d.dir) && (namespace == own || !d.isTakenAlong(mount)) {
			found = append(found, "a mount in "+process+": "+mount)
		}
	}
	return found
}

// A new mount namespace, such as another test's, copies hostd's mounts.
func (d *running) isTakenAlong(mount string) bool {
	pin := pinPath(d.dir + "/run")
	return slices.ContainsFunc([]string{pin, filepath.Dir(pin), layerPath(d.dir+"/layers", d.layer)}, func(point string) bool {
		return strings.Contains(mount, " "+point+" ")
	})
}

func (d *daemon) call(method, path string, body, into any) *wire.HostError {
	d.t.Helper()
	text, err := json.Marshal(body)
	must(d.t, err)
	return d.send(method, path, text, into)
}

func (d *daemon) send(method, path string, text []byte, into any) *wire.HostError {
	d.t.Helper()
	request, err := http.NewRequest(method, "http://hostd"+path, bytes.NewReader(text))
	must(d.t, err)
	response, err := d.client.Do(request)
	if err != nil {
		return &wire.HostError{Code: "no_answer", Message: err.Error()}
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	must(d.t, err)
	if response.StatusCode != http.StatusOK {
		var refusal wire.HostError
		must(d.t, json.Unmarshal(answer, &refusal))
		return &refusal
	}
	if into != nil {
		must(d.t, json.Unmarshal(answer, into))
	}
	return nil
}

func into(owner string) *wire.Subject {
	subject := wire.SubjectOf(owner)
	return &subject
}

func (d *daemon) fence(workspace string, epoch int64) wire.Fence {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nextStep++
	d.owners[workspace] = true
	return wire.Fence{Subject: wire.SubjectOf(workspace), OperationID: newID(), Step: fmt.Sprintf("s%d", d.nextStep), Epoch: epoch, Fence: int64(d.nextStep)}
}

var small = wire.Resources{CPUMillis: 1000, MemoryMiB: 256, DiskGiB: 1}

func (d *daemon) startRequest(workspace string, epoch int64) wire.StartRequest {
	return wire.StartRequest{Fence: d.fence(workspace, epoch), Resources: small, Hostname: "box", Layers: []string{d.layer}}
}

func (d *daemon) startMachine(workspace string, epoch int64) wire.Machine {
	d.t.Helper()
	var machine wire.Machine
	d.ok(d.call("POST", "/machines/start", d.startRequest(workspace, epoch), &machine))
	return machine
}

func (d *daemon) checkpoint(m wire.Machine, id, then string) wire.CheckpointInfo {
	d.t.Helper()
	var info wire.CheckpointInfo
	request := wire.CheckpointRequest{Fence: d.fence(m.Owner(), m.Epoch), CheckpointID: id, Then: then}
	d.ok(d.call("POST", "/machines/checkpoint", request, &info))
	return info
}

func (d *daemon) restoreRequest(workspace, id string, epoch int64) wire.RestoreRequest {
	return wire.RestoreRequest{Fence: d.fence(workspace, epoch), Resources: small, Hostname: "box", CheckpointID: id}
}

func (d *daemon) restore(workspace, id string, epoch int64) wire.Machine {
	d.t.Helper()
	var machine wire.Machine
	d.ok(d.call("POST", "/machines/restore", d.restoreRequest(workspace, id, epoch), &machine))
	return machine
}

func (d *daemon) stop(m wire.Machine) {
	d.t.Helper()
	d.ok(d.call("POST", "/machines/stop", wire.StopRequest{Fence: d.fence(m.Owner(), m.Epoch)}, nil))
}

func (d *daemon) inventory() wire.Inventory {
	d.t.Helper()
	var inventory wire.Inventory
	d.ok(d.call("GET", "/inventory", nil, &inventory))
	return inventory
}

func (d *daemon) machineOf(workspace string) *wire.Machine {
	d.t.Helper()
	for _, m := range d.inventory().Machines {
		if m.Owner() == workspace {
			return &m
		}
	}
	return nil
}

func (d *daemon) seenByHostd(path ...string) string {
	return filepath.Join(append([]string{"/proc", itoa(d.process.Process.Pid), "root", d.dir}, path...)...)
}

func (d *daemon) setFailpoints(points Failpoints) {
	d.t.Helper()
	d.ok(d.call("PUT", "/failpoints", points, nil))
}

func (d *daemon) ok(refusal *wire.HostError) {
	d.t.Helper()
	if refusal != nil {
		d.t.Fatalf("hostd refused: %+v; its log ends: %s", *refusal, d.logTail())
	}
}

func (d *daemon) refused(refusal *wire.HostError, code string) {
	d.t.Helper()
	if refusal == nil || refusal.Code != code {
		d.t.Fatalf("hostd answered %+v where it should refuse with %s", refusal, code)
	}
}

func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testns.Patience(patient)); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("not within %s: %s", patient, what)
}
