package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestALimitOfAllMachinesCountsEachOfThem(t *testing.T) {
	eachVersion(t, func(t *testing.T, tree *Tree) {
		limited(t, tree)
		must(t, tree.LimitMachines(64<<20))
		group, err := tree.Create("slot1", Limits{}) // without its own limit
		must(t, err)
		quiet := start(t, tree.Service(), "exec sleep 1000")
		if status := wait(start(t, group, "exec python3 -c 'bytearray(200 << 20)'")); !status.Signaled() || status.Signal() != unix.SIGKILL {
			t.Errorf("it ended with %#x", status)
		}
		must(t, quiet.Process.Signal(unix.Signal(0)))
		must(t, tree.LimitMachines(0))
		if status := wait(start(t, group, "exec python3 -c 'bytearray(200 << 20)'")); status != 0 {
			t.Errorf("without a limit it ended with %#x", status)
		}
	})
}

func TestALimitBelowWhatIsInUseIsRefusedAndKillsNobody(t *testing.T) {
	eachVersion(t, func(t *testing.T, tree *Tree) {
		limited(t, tree)
		group, err := tree.Create("slot1", Limits{MemoryBytes: 256 << 20})
		must(t, err)
		ready := filepath.Join(t.TempDir(), "ready")
		user := start(t, group, "exec python3 -c 'b = bytearray(100 << 20); open(\""+ready+"\", \"w\"); import time; time.sleep(1000)'")
		eventually(t, "100 MiB are in use", func() bool { _, err := os.Stat(ready); return err == nil })
		if err := group.SetMemory(64 << 20); !errors.Is(err, unix.EBUSY) {
			t.Errorf("the answer is %v", err)
		}
		must(t, user.Process.Signal(unix.Signal(0)))
		must(t, group.SetMemory(192<<20))
	})
}

func TestVersionTwoLooksBeforeItLowersALimit(t *testing.T) {
	root := t.TempDir()
	files := map[string]string{"cpu.stat": "usage_usec 1\n", "memory.current": "209715200\n", "memory.stat": "inactive_file 104857600\n",
		"memory.events": "oom_kill 0\n", "memory.max": "max\n", "memory.min": "0\n"}
	must(t, os.Mkdir(filepath.Join(root, "m"), 0o700))
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(root, "m", name), []byte(text), 0o600))
	}
	v := &versionTwo{root: root, needed: neededV2}
	is := func(name, want string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(root, "m", name))
		must(t, err)
		if got := strings.TrimSpace(string(text)); !strings.HasPrefix(got, want) {
			t.Errorf("%s is %s, not %s", name, got, want)
		}
	}
	if err := v.setMemory("m", 120<<20); !errors.Is(err, unix.EBUSY) { // 100 MiB cannot be reclaimed, and a little may be added
		t.Error(err)
	}
	is("memory.max", "max")
	must(t, v.setMemory("m", 140<<20))
	is("memory.max", "146800640")
	must(t, v.protect("m", 256<<20))
	is("memory.min", "268435456")
}
