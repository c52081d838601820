package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/testns"
)

const asSupervisor = "SUPERVISOR_TEST_CONFIG"

// Names a file. Once it exists, the binary executes a program from a thread other than its first, which has ended.
const asExecuting = "SUPERVISOR_TEST_EXECUTES"

func init() {
	if os.Getenv(asExecuting) != "" {
		runtime.LockOSThread() // to the first thread
	}
}

func executeFromAnotherThread(after string) {
	go func() {
		for _, err := os.Stat(after); err != nil; _, err = os.Stat(after) {
			time.Sleep(time.Millisecond)
		}
		panic(syscall.Exec("/bin/sleep", []string{"sleep", "60"}, nil))
	}()
	syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
}

func TestMain(m *testing.M) {
	if after := os.Getenv(asExecuting); after != "" {
		executeFromAnotherThread(after)
	}
	path := os.Getenv(asSupervisor)
	if path == "" {
		go reapForever(context.Background())
		os.Exit(m.Run())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	config, err := ReadConfig(text)
	if err != nil {
		panic(err)
	}
	if err := Run(context.Background(), config, os.Stdout); err != nil {
		panic(err)
	}
}

func shell(name, script string, stage int) Child {
	return Child{Name: name, Stage: stage, Argv: []string{"/bin/sh", "-c", script}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"},
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), StopSignal: "SIGTERM", StopSeconds: 30, StartSeconds: 60}
}

var instances atomic.Int32

func testConfig(t *testing.T, children ...Child) Config {
	dir := t.TempDir()
	instance := fmt.Sprintf("%04x", instances.Add(1))
	return Config{Instance: instance, RunDir: filepath.Join(dir, "run"), LogDir: filepath.Join(dir, "log"), Children: children}
}

type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testns.Patience(time.Minute)); !check(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

func background(t *testing.T, config Config) (*output, func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	out := &output{}
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, config, out) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { stop() })
	return out, stop
}

func pidOf(t *testing.T, config Config, name string) int {
	t.Helper()
	var found *process
	eventually(t, name+" is running", func() bool {
		text, err := os.ReadFile(pidPath(config, Child{Name: name}))
		if err != nil {
			return false
		}
		found = reopen(text)
		return found != nil
	})
	found.close()
	return found.PID
}

func TestStagesStartInOrderAndEndInTheOppositeOne(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	script := func(name string) string {
		return fmt.Sprintf("trap 'echo -%s >> %s; exit 0' TERM; echo +%s >> %s; while :; do sleep 0.02; done", name, trace, name, trace)
	}
	first, last := shell("first", script("first"), 1), shell("last", script("last"), 3)
	once := shell("once", "sleep 0.1; echo once >> "+trace, 2)
	once.Once = true
	config := testConfig(t, last, once, first)
	_, stop := background(t, config)
	read := func() string { text, _ := os.ReadFile(trace); return strings.Join(strings.Fields(string(text)), " ") }
	eventually(t, "everything starts", func() bool { return read() == "+first once +last" })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "+first once +last -last -first" {
		t.Fatal(got)
	}
}

func TestAChildThatDiesIsStartedAgain(t *testing.T) {
	config := testConfig(t, shell("child", "exec sleep 1000", 1))
	out, _ := background(t, config)
	first := pidOf(t, config, "child")
	eventually(t, "ready", func() bool { return strings.Contains(out.String(), "child is ready") })
	syscall.Kill(first, syscall.SIGKILL)
	eventually(t, "a new process", func() bool { return pidOf(t, config, "child") != first })
	eventually(t, "a report", func() bool { return strings.Contains(out.String(), "child ended by SIGKILL; it is started again") })
}

func TestAFailpointsEnvironmentIsGivenTheFirstTimeOnly(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	child := shell("child", "echo [$POINT] >> "+trace+"; test -z $POINT && exec sleep 1000", 1)
	child.FirstEnv = []string{"POINT=x"}
	background(t, testConfig(t, child))
	eventually(t, "two starts", func() bool { text, _ := os.ReadFile(trace); return string(text) == "[x]\n[]\n" })
}

func TestAStepThatFailsEndsTheStartAndShowsItsLog(t *testing.T) {
	once := shell("once", "echo the reason; exit 7", 2)
	once.Once = true
	config := testConfig(t, shell("child", "exec sleep 1000", 1), once)
	err := Run(context.Background(), config, &output{})
	if err == nil || !strings.Contains(err.Error(), "exit code 7") || !strings.Contains(err.Error(), "the reason") {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(pidPath(config, config.Children[0])); reopen(text) != nil {
		t.Fatal("the child of the first stage lives on")
	}
}

func TestAStepThatEndsAtOnceIsSeenToEnd(t *testing.T) {
	config := testConfig(t)
	once := shell("once", "", 1)
	once.Argv, once.Once = []string{"/bin/true"}, true
	if err := os.MkdirAll(config.LogDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for range testns.Depth(30, 200) {
		if err := newKeeper(config, once, func(string) {}).runOnce(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAChildThatNeverStaysUpEndsTheStart(t *testing.T) {
	t.Parallel()
	child := shell("child", "echo no such thing; exit 1", 1)
	child.Ready = Ready{Unix: "/nowhere"}
	err := Run(context.Background(), testConfig(t, child), &output{})
	if err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Fatal(err)
	}
}

func TestAChildThatIgnoresTheSignalIsKilled(t *testing.T) {
	deaf := filepath.Join(t.TempDir(), "deaf")
	child := shell("child", "trap '' TERM; echo >"+deaf+"; while :; do sleep 0.1; done", 1)
	child.StopSeconds = 1
	out, stop := background(t, testConfig(t, child))
	eventually(t, "it ignores the signal", func() bool {
		_, err := os.Stat(deaf)
		return err == nil && strings.Contains(out.String(), "child is ready")
	})
	stop()
	if !strings.Contains(out.String(), "is killed") {
		t.Fatal(out.String())
	}
}

func killedSupervisor(t *testing.T, config Config) int {
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), asSupervisor+"="+path)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	pid := pidOf(t, config, config.Children[0].Name)
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) })
	supervisor, err := open(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer supervisor.close()
	supervisor.signal(syscall.SIGKILL)
	if !supervisor.wait(time.Minute) {
		t.Fatal("the supervisor lives on")
	}
	return pid
}

func coreLimit(t *testing.T, pid int) uint64 {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &limit); err != nil {
		t.Fatal(err)
	}
	return limit.Max
}

func TestAKilledSupervisorsChildIsTakenOver(t *testing.T) {
	config := testConfig(t, shell("child", "exec sleep 1000", 1))
	left := killedSupervisor(t, config)
	most := coreLimit(t, left)
	// An earlier supervisor left this limit; the test may not be allowed to set it.
	if err := unix.Prlimit(left, unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 30, Max: 1 << 30}, nil); err != nil {
		t.Logf("the limit of core files stays as it is: %v", err)
	}
	out, stop := background(t, config)
	eventually(t, "ready", func() bool { return strings.Contains(out.String(), "child is ready") })
	if got := pidOf(t, config, "child"); got != left {
		t.Fatalf("process %d runs beside %d", got, left)
	}
	if again := coreLimit(t, left); most > 1 || again > 1 {
		t.Errorf("core files may have %d bytes, and %d after the child was taken over", most, again)
	}
	stop()
	if syscall.Kill(left, 0) == nil {
		if started, err := startTimeOf(left); err == nil {
			t.Fatalf("process %d lives on (%d)", left, started)
		}
	}
}

func TestAChildWhosePidWasNeverWrittenDownIsTakenOver(t *testing.T) {
	config := testConfig(t, shell("child", "while :; do sleep 0.1; done", 1))
	left := killedSupervisor(t, config)
	if err := os.Remove(pidPath(config, config.Children[0])); err != nil {
		t.Fatal(err)
	}
	background(t, config)
	if got := pidOf(t, config, "child"); got != left {
		t.Fatalf("process %d runs beside %d", got, left)
	}
}

func TestAChildThatIsAboutToExecuteAProgramIsNotTakenForEnded(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := shell("executes", "", 1)
	config := testConfig(t, child)
	told := filepath.Join(t.TempDir(), "told")
	child.Argv, child.Env = []string{self}, []string{asExecuting + "=" + told}
	if err := os.MkdirAll(config.LogDir, 0o755); err != nil {
		t.Fatal(err)
	}
	started, err := start(config, child, child.Env)
	if err != nil {
		t.Fatal(err)
	}
	defer started.close()
	defer started.signal(syscall.SIGKILL)
	eventually(t, "its first thread ends", func() bool {
		_, err := startTimeOf(started.PID)
		return err != nil
	})
	time.AfterFunc(100*time.Millisecond, func() { os.WriteFile(told, nil, 0o600) })
	opened, err := open(started.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.close()
	if opened.StartTime != started.StartTime || opened.wait(0) {
		t.Fatalf("%+v, and it was %+v", opened, started)
	}
}

func TestARunningChildOfAnotherVersionIsReplaced(t *testing.T) {
	config := testConfig(t, shell("child", "exec sleep 1000", 1))
	left := killedSupervisor(t, config)
	config.Children[0].Version = "2"
	background(t, config)
	eventually(t, "a new process", func() bool { return pidOf(t, config, "child") != left })
	if _, err := startTimeOf(left); err == nil {
		t.Fatal("the old one lives on")
	}
}

func TestAPidThatIsAnothersByNowIsNotTakenOver(t *testing.T) {
	own, err := open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer own.close()
	own.StartTime++
	text, _ := json.Marshal(own)
	if reopen(text) != nil {
		t.Fatal("a stranger was taken over")
	}
}

func TestASecondSupervisorOfADataDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	first, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir); !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Fatal(err)
	}
	first.Close()
	again, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}
