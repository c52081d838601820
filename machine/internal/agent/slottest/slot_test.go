// Package slottest runs the agent as the first process of a real gVisor sandbox. It needs root and the variables below.
package slottest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	runscVariable    = "BERTH_TEST_RUNSC"    // path of the runsc binary
	templateVariable = "BERTH_TEST_TEMPLATE" // path of an EROFS image with a user `user`
	agentVariable    = "BERTH_TEST_AGENT"    // path of this version's agent; built if unset
)

var agentBinary, builtIn string

func TestMain(m *testing.M) {
	if why := testns.Missing(runscVariable, templateVariable); why != "" {
		fmt.Println("none of these tests ran:", why)
		if testns.Whole() {
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := testns.Run(m, unix.CLONE_NEWNET, findAgent)
	if builtIn != "" {
		os.RemoveAll(builtIn)
	}
	os.Exit(code)
}

func findAgent() (err error) {
	if agentBinary = os.Getenv(agentVariable); agentBinary != "" {
		return nil
	}
	if builtIn, err = os.MkdirTemp("", "agent-slot-"); err != nil {
		return err
	}
	agentBinary = filepath.Join(builtIn, "agent")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", agentBinary, "../../../cmd/agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	return build.Run()
}

const (
	slotKey     = "slot-key-0123456789"
	memoryBytes = 512 << 20
	tasksMax    = 300
	outputBytes = 16 << 20
)

type slot struct {
	t       *testing.T
	dir     string // all files of this sandbox
	disk    string // upper layer and state; outlives the sandbox
	name    string
	address string
	key     string
	epoch   int64
	number  int32 // of its network
}

var slots atomic.Int32

func newSlot(t *testing.T, disk string) *slot {
	t.Helper()
	number := slots.Add(1)
	s := &slot{t: t, dir: t.TempDir(), disk: disk, name: fmt.Sprintf("t%d-%d", os.Getpid(), number), key: slotKey, number: number}
	if disk == "" {
		s.disk = t.TempDir()
	}
	for _, d := range []string{"claim/root", "claim/state", "inc", "proc", "dev", "sys", "tmp", "volumes"} {
		must(t, os.MkdirAll(s.path(d), 0o755))
	}
	must(t, copyFile(agentBinary, s.path("agent")))
	s.writeIncarnation(wire.Incarnation{Epoch: 0, Key: slotKey})
	for _, d := range []string{s.path(), s.join("vol")} {
		must(t, os.MkdirAll(d, 0o755))
		must(t, unix.Mount(d, d, "", unix.MS_BIND, ""))
		must(t, unix.Mount("", d, "", unix.MS_SHARED, ""))
	}
	s.network()
	s.bundle()
	t.Cleanup(s.stop)
	return s
}

func (s *slot) join(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}
func (s *slot) path(parts ...string) string {
	return s.join(append([]string{"slot"}, parts...)...)
}

func (s *slot) network() {
	host, guest := fmt.Sprintf("10.77.%d.1", s.number), fmt.Sprintf("10.77.%d.2", s.number)
	veth := fmt.Sprintf("v%d", s.number)
	for _, line := range []string{
		"ip netns add " + s.name,
		"ip link add " + veth + " type veth peer name eth0 netns " + s.name,
		"ip addr add " + host + "/30 dev " + veth,
		"ip link set " + veth + " up",
		"ip -n " + s.name + " addr add " + guest + "/30 dev eth0",
		"ip -n " + s.name + " link set eth0 up",
		"ip -n " + s.name + " link set lo up",
		"ip -n " + s.name + " route add default via " + host,
	} {
		s.command(strings.Fields(line)...)
	}
	s.address = guest
	s.t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", s.name).Run() })
}

func (s *slot) bundle() {
	caps := engine.Capabilities()
	mount := func(to, kind, from string, options ...string) map[string]any {
		return map[string]any{"destination": to, "type": kind, "source": from, "options": options}
	}
	spec := map[string]any{
		"ociVersion": "1.0.0", "hostname": "slot",
		"root": map[string]any{"path": s.path()},
		"process": map[string]any{"args": []string{"/agent"}, "cwd": "/", "user": map[string]int{"uid": 0, "gid": 0},
			"capabilities": map[string]any{"bounding": caps, "effective": caps, "permitted": caps},
			"rlimits":      []any{map[string]any{"type": "RLIMIT_NOFILE", "soft": 65536, "hard": 1048576}}},
		"mounts": []any{mount("/proc", "proc", "proc"), mount("/dev", "tmpfs", "tmpfs"), mount("/dev/pts", "devpts", "devpts"),
			mount("/dev/shm", "tmpfs", "shm", "size=64m"), mount("/sys", "sysfs", "sysfs", "ro"),
			mount("/tmp", "tmpfs", "tmpfs", "size=128m", "mode=1777"), mount("/volumes", "bind", s.join("vol"), "rbind", "rslave")},
		"linux": map[string]any{"namespaces": []any{map[string]string{"type": "pid"}, map[string]string{"type": "ipc"},
			map[string]string{"type": "uts"}, map[string]string{"type": "mount"},
			map[string]string{"type": "network", "path": "/var/run/netns/" + s.name}}},
	}
	b, err := json.Marshal(spec)
	must(s.t, err)
	must(s.t, os.MkdirAll(s.join("bundle"), 0o755))
	must(s.t, os.WriteFile(s.join("bundle", "config.json"), b, 0o644))
}

func (s *slot) runsc(args ...string) error {
	flags := []string{"--root", s.join("runsc"), "--overlay2=none", "--allow-suid", "--host-uds=none", "--network=sandbox",
		"--platform=systrap", "--ignore-cgroups"}
	log, err := os.OpenFile(s.join("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	c := exec.Command(os.Getenv(runscVariable), append(flags, args...)...)
	c.Stdout, c.Stderr = log, log
	return c.Run()
}

func (s *slot) start() *slot {
	s.t.Helper()
	must(s.t, s.runsc("run", "--detach", "--bundle", s.join("bundle"), s.name))
	s.awaitAgent()
	return s
}

func (s *slot) awaitAgent() {
	s.t.Helper()
	for end := time.Now().Add(testns.Patience(time.Minute)); ; {
		if status, _, err := s.try("GET", "/incarnation", nil); err == nil && status != 0 {
			return
		}
		if time.Now().After(end) {
			b, _ := os.ReadFile(s.join("log"))
			s.t.Fatalf("the agent does not answer:\n%s", b)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (s *slot) mountClaim() {
	s.t.Helper()
	lower := s.join("lower")
	upper, work, state := filepath.Join(s.disk, "upper"), filepath.Join(s.disk, "work"), filepath.Join(s.disk, "state")
	for _, d := range []string{lower, upper, work, state} {
		must(s.t, os.MkdirAll(d, 0o755))
	}
	must(s.t, unix.Mount(os.Getenv(templateVariable), lower, "erofs", unix.MS_RDONLY, ""))
	must(s.t, unix.Mount("overlay", s.path("claim/root"), "overlay", 0,
		"lowerdir="+lower+",upperdir="+upper+",workdir="+work+",redirect_dir=on"))
	must(s.t, unix.Mount(state, s.path("claim/state"), "", unix.MS_BIND, ""))
}

func (s *slot) incarnation(workspace string, epoch int64) wire.Incarnation {
	return wire.Incarnation{WorkspaceID: workspace, Epoch: epoch, Key: fmt.Sprintf("%s-key-of-epoch-%d", workspace, epoch),
		Hostname: "box-" + workspace, Nameserver: "10.77.0.53",
		Limits: &wire.GuestLimits{MemoryBytes: memoryBytes, Processes: tasksMax, OutputBytes: outputBytes}}
}

func (s *slot) writeIncarnation(in wire.Incarnation) {
	b, err := json.Marshal(in)
	must(s.t, err)
	must(s.t, os.WriteFile(s.path("inc", fmt.Sprintf("%d.json", in.Epoch)), b, 0o600))
}

func (s *slot) claim(workspace string) *slot {
	s.t.Helper()
	s.mountClaim()
	in := s.incarnation(workspace, 1)
	s.epoch = 0
	s.expect(200, "POST", "/claim", wire.ClaimRequest{Incarnation: in}, nil)
	s.key, s.epoch = in.Key, 1
	return s
}

func (s *slot) stop() {
	if log, err := os.ReadFile(s.join("log")); err == nil && s.t.Failed() {
		s.t.Logf("log of the machine:\n%s", log[max(0, len(log)-8000):])
	}
	_ = s.runsc("kill", s.name, "KILL")
	_ = s.runsc("delete", "--force", s.name)
	for _, p := range []string{s.path("claim/state"), s.path("claim/root"), s.join("lower"), s.join("vol"), s.path()} {
		_ = unix.Unmount(p, unix.MNT_DETACH)
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for _, line := range strings.Split(string(mounts), "\n") {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], s.dir) {
			_ = unix.Unmount(f[1], unix.MNT_DETACH)
		}
	}
}

func (s *slot) command(args ...string) {
	s.t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}
