package cgroup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/testns"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestMain(m *testing.M) { os.Exit(testns.Run(m, 0)) }

func newInstance(t testing.TB) string {
	name := fmt.Sprintf("t%08x", rand.Uint32())
	testns.NotesGroup(t, name)
	return name
}

func eachVersion(t *testing.T, run func(t *testing.T, tree *Tree)) {
	main, err := detect()
	must(t, err)
	versions := map[string]version{"main": main}
	if _, unified, err := readMounts(); err == nil && unified != "" {
		if _, isOne := main.(*versionOne); isOne {
			beside, err := openV2(unified, nil)
			must(t, err)
			versions["v2 without controllers"] = beside
		}
	}
	for name, v := range versions {
		t.Run(name, func(t *testing.T) {
			tree, err := open(v, newInstance(t))
			must(t, err)
			t.Cleanup(func() {
				must(t, tree.Remove())
				for _, dir := range v.dirs(tree.name) {
					if _, err := os.Stat(dir); err == nil {
						t.Errorf("%s is left", dir)
					}
				}
			})
			run(t, tree)
		})
	}
}

func limited(t *testing.T, tree *Tree) {
	if two, ok := tree.v.(*versionTwo); ok && !two.has("memory") {
		t.Skip("this tree has no controllers")
	}
}

func start(t *testing.T, group *Group, script string) *exec.Cmd {
	t.Helper()
	command := exec.Command("/bin/sh", "-c", "read go; "+script)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdin, err := command.StdinPipe()
	must(t, err)
	must(t, command.Start())
	t.Cleanup(func() { group.Thaw(); command.Process.Kill(); command.Wait() })
	must(t, group.Add(command.Process.Pid))
	_, err = stdin.Write([]byte("go\n"))
	must(t, err)
	return command
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testns.Patience(time.Minute)); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("not within a minute: %s", what)
}

func TestAGroupHoldsTheChildrenOfItsProcessesAndKillEndsThemAll(t *testing.T) {
	eachVersion(t, func(t *testing.T, tree *Tree) {
		group, err := tree.Create("slot1", Limits{})
		must(t, err)
		command := start(t, group, "for i in 1 2 3 4; do sleep 1000 & done; wait")
		eventually(t, "five processes", func() bool { pids, _ := group.Procs(); return len(pids) == 5 })
		must(t, group.Kill(context.Background()))
		if pids, err := group.Procs(); len(pids) != 0 || err != nil {
			t.Errorf("left: %v, %v", pids, err)
		}
		wait(command)
		must(t, group.Delete())
		must(t, group.Delete())
		must(t, group.Kill(context.Background()))
	})
}

func wait(command *exec.Cmd) syscall.WaitStatus {
	command.Wait()
	return command.ProcessState.Sys().(syscall.WaitStatus)
}

func TestAFrozenGroupUsesNoCPUAndIsKilledAllTheSame(t *testing.T) {
	eachVersion(t, func(t *testing.T, tree *Tree) {
		group, err := tree.Create("slot1", Limits{})
		must(t, err)
		start(t, group, "while :; do :; done")
		usage := func() int64 { cpu, _, _, err := group.Stats(); must(t, err); return cpu }
		eventually(t, "10 ms of CPU", func() bool { return usage() > 10_000 })
		must(t, group.Freeze())
		if frozen, err := group.Frozen(); !frozen || err != nil {
			t.Fatalf("frozen %v, %v", frozen, err)
		}
		before := usage()
		time.Sleep(50 * time.Millisecond) // a frozen group sends no event, so wait
		if after := usage(); after-before > 1000 {
			t.Errorf("a frozen group used %d us", after-before)
		}
		must(t, group.Thaw())
		eventually(t, "running again", func() bool { return usage() > before+10_000 })
		must(t, group.Freeze())
		must(t, group.Kill(context.Background()))
	})
}

func TestTheFreezerFileThawsWithoutTheGroup(t *testing.T) {
	eachVersion(t, func(t *testing.T, tree *Tree) {
		group, err := tree.Create("slot1", Limits{})
		must(t, err)
		start(t, group, "sleep 1000")
		must(t, group.Freeze())
		value := "THAWED"
		if _, two := tree.v.(*versionTwo); two {
			value = "0"
		}
		must(t, os.WriteFile(group.FreezerFile(), []byte(value), 0))
		eventually(t, "thawed", func() bool { frozen, err := group.Frozen(); return err == nil && !frozen })
	})
}

func TestMemoryPastTheLimitIsAnOOMKillThatIsCounted(t *testing.T) {
	eachVersion(t, func(t *testing.T, tree *Tree) {
		limited(t, tree)
		group, err := tree.Create("slot1", Limits{MemoryBytes: 32 << 20})
		must(t, err)
		command := start(t, group, "head -c 500000000 /dev/zero | tail") // tail keeps the whole line
		// cgroup v1 kills only that process, and the shell reports its end.
		status := wait(command)
		if _, two := tree.v.(*versionTwo); two && status.Signal() != syscall.SIGKILL {
			t.Fatalf("it ended with %v", status)
		} else if !two && status.ExitStatus() != 128+int(syscall.SIGKILL) {
			t.Fatalf("it ended with %v", status)
		}
		eventually(t, "a counted kill", func() bool { _, _, kills, err := group.Stats(); return err == nil && kills >= 1 }) // the kernel may count more than one
	})
}

func TestMemoryLimitsRiseAndFall(t *testing.T) {
	eachVersion(t, func(t *testing.T, tree *Tree) {
		limited(t, tree)
		for _, mib := range []int64{64, 512, 128, 0, 256} {
			group, err := tree.Create("slot1", Limits{MemoryBytes: mib << 20})
			must(t, err)
			if one, ok := tree.v.(*versionOne); ok && mib > 0 {
				if got, err := readInt(one.file("memory", group.path, "memory.limit_in_bytes")); got != mib<<20 || err != nil {
					t.Errorf("limit %d, %v", got, err)
				}
			}
		}
	})
}

func TestACPUQuotaHolds(t *testing.T) {
	eachVersion(t, func(t *testing.T, tree *Tree) {
		limited(t, tree)
		group, err := tree.Create("slot1", Limits{CPUMillis: 200})
		must(t, err)
		start(t, group, "while :; do :; done")
		begin := time.Now()
		time.Sleep(time.Second)
		cpu, _, _, err := group.Stats()
		must(t, err)
		if share := float64(cpu) / float64(time.Since(begin).Microseconds()); share > 0.3 {
			t.Errorf("it had %.2f CPUs of 0.2", share)
		}
	})
}

func TestTheNumberOfProcessesIsCapped(t *testing.T) {
	eachVersion(t, func(t *testing.T, tree *Tree) {
		limited(t, tree)
		group, err := tree.Create("slot1", Limits{Pids: 4})
		must(t, err)
		start(t, group, "for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done 2>/dev/null; wait")
		eventually(t, "four processes", func() bool { pids, _ := group.Procs(); return len(pids) >= 3 })
		time.Sleep(20 * time.Millisecond)
		if pids, _ := group.Procs(); len(pids) > 4 {
			t.Errorf("%d processes", len(pids))
		}
	})
}

func TestTheTreeIsAdoptedAndNamesItsSlots(t *testing.T) {
	eachVersion(t, func(t *testing.T, tree *Tree) {
		for _, slot := range []string{"a1", "b2"} {
			_, err := tree.Create(slot, Limits{})
			must(t, err)
		}
		again, err := open(tree.v, tree.name[len("berth-"):])
		must(t, err)
		slots, err := again.List()
		slices.Sort(slots)
		if err != nil || !slices.Equal(slots, []string{"a1", "b2"}) {
			t.Errorf("slots %v, %v", slots, err)
		}
		for _, bad := range []string{"", "..", "a/b", "../service"} {
			if _, err := tree.Create(bad, Limits{}); err == nil {
				t.Errorf("slot name %q was accepted", bad)
			}
		}
	})
}

func TestRemoveMovesTheServiceOutAndKillsTheRest(t *testing.T) {
	eachVersion(t, func(t *testing.T, tree *Tree) {
		group, err := tree.Create("slot1", Limits{})
		must(t, err)
		machine, service := start(t, group, "exec sleep 1000"), start(t, tree.Service(), "exec sleep 1000")
		command := start(t, tree.Commands(), "exec sleep 1000")
		must(t, tree.Remove())
		if !wait(machine).Signaled() || !wait(command).Signaled() {
			t.Error("machine and command were not killed")
		}
		must(t, service.Process.Signal(syscall.Signal(0)))
	})
}

func TestKillSparesTheThreadThatSpawnsIntoTheGroup(t *testing.T) {
	eachVersion(t, func(t *testing.T, tree *Tree) {
		group := tree.Commands()
		tasks := filepath.Join(filepath.Dir(group.FreezerFile()), "tasks")
		if _, err := os.Stat(tasks); err != nil {
			t.Skip("only v1 takes single threads")
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			runtime.LockOSThread()
			if err := os.WriteFile(tasks, []byte(strconv.Itoa(unix.Gettid())), 0); err != nil {
				t.Error(err)
				return
			}
			command := exec.Command("/bin/sh", "-c", "sleep 1000 & wait")
			if err := command.Start(); err != nil {
				t.Error(err)
				return
			}
			defer command.Wait()
			defer command.Process.Kill()
			if pids, err := group.strangers(); !slices.Contains(pids, command.Process.Pid) {
				t.Errorf("born elsewhere: %v, %v", pids, err)
			}
			if err := group.Kill(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		<-ended
	})
}

func BenchmarkAdd(b *testing.B) {
	tree, err := Open(newInstance(b))
	if err != nil {
		b.Fatal(err)
	}
	defer tree.Remove()
	for b.Loop() {
		command := exec.Command("/bin/sleep", "100")
		command.Start()
		if err := tree.Commands().Add(command.Process.Pid); err != nil {
			b.Fatal(err)
		}
		command.Process.Kill()
		command.Wait()
	}
}

func TestAWeightLastsUntilTheNextLimits(t *testing.T) {
	tree, err := Open(newInstance(t))
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Remove()
	group, err := tree.Create("slot1", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	file, normal, heavy := "cpu.weight", "100", "2000"
	if strings.HasSuffix(group.FreezerFile(), "freezer.state") {
		file, normal, heavy = "cpu.shares", "1024", "20480"
	}
	for _, step := range []struct {
		percent int
		want    string
	}{{2000, heavy}, {0, normal}} {
		if err := group.SetLimits(Limits{WeightPercent: step.percent}); err != nil {
			t.Fatal(err)
		}
		weights := ""
		for _, dir := range group.v.dirs(group.path) {
			if text, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
				weights += strings.TrimSpace(string(text))
			}
		}
		if weights != step.want {
			t.Errorf("with %d percent it weighs %s, not %s", step.percent, weights, step.want)
		}
	}
}

func BenchmarkCreateAndDelete(b *testing.B) {
	tree, err := Open(newInstance(b))
	if err != nil {
		b.Fatal(err)
	}
	defer tree.Remove()
	for b.Loop() {
		g, err := tree.Create("s", Limits{CPUMillis: 1000, MemoryBytes: 1 << 30, Pids: 100})
		if err != nil {
			b.Fatal(err)
		}
		if err := g.Delete(); err != nil {
			b.Fatal(err)
		}
	}
}
