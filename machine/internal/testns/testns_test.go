package testns

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const leaves = "BERTH_TEST_LEAVES"

func TestMain(m *testing.M) { os.Exit(Run(m, 0, leaveThings)) }

func leaveThings() error {
	mark := os.Getenv(leaves)
	if mark == "" {
		return nil
	}
	point := filepath.Join(os.TempDir(), "point")
	left := exec.Command("sleep", mark)
	left.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err := errors.Join(noteGroup("t"+mark), os.MkdirAll(filepath.Join(groupOf(mark), "deeper"), 0o755), os.Mkdir(point, 0o755),
		syscall.Mount("tmpfs", point, "tmpfs", 0, ""), left.Start(), os.WriteFile(filepath.Join(os.TempDir(), "ready"), nil, 0o600))
	if err == nil {
		time.Sleep(10 * time.Minute)
	}
	return err
}

func TestARunThatIsEndedLeavesNothing(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		outside, mark, dir := leaving(t)
		must(t, outside.Process.Signal(signal))
		if err := outside.Wait(); err == nil {
			t.Errorf("a run that was ended by %s passed", signal)
		}
		nothingIsLeft(t, mark, dir)
	}
}

func TestOfAKilledRunNoProcessIsLeftAndTheNextRunRemovesTheRest(t *testing.T) {
	outside, mark, dir := leaving(t)
	must(t, outside.Process.Kill())
	_ = outside.Wait()
	eventually(t, "its processes end", func() bool { return len(processes(t, mark)) == 0 })
	if _, err := os.Stat(groupOf(mark)); err != nil {
		t.Errorf("the killed run had no time to remove its group: %v", err)
	}
	next := again(dir, "")
	if output, err := next.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	nothingIsLeft(t, mark, dir)
}

func TestARunThatGoesOnKeepsWhatItHas(t *testing.T) {
	outside, mark, dir := leaving(t)
	if output, err := again(dir, "").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if len(processes(t, mark)) != 1 {
		t.Error("the process of a run that goes on is gone")
	}
	if _, err := os.Stat(groupOf(mark)); err != nil {
		t.Error(err)
	}
	must(t, outside.Process.Signal(syscall.SIGTERM))
	_ = outside.Wait()
	nothingIsLeft(t, mark, dir)
}

func leaving(t *testing.T) (outside *exec.Cmd, mark, dir string) {
	t.Helper()
	mark, dir = fmt.Sprintf("1%08d", rand.IntN(1e8)), t.TempDir()
	outside = again(dir, mark)
	must(t, outside.Start())
	t.Cleanup(func() { outside.Process.Kill() })
	eventually(t, "the run has left things", func() bool {
		ready, _ := filepath.Glob(filepath.Join(dir, folders, "ready"))
		return len(ready) == 1
	})
	if len(processes(t, mark)) != 1 {
		t.Fatal("the run's process is not there")
	}
	return outside, mark, dir
}

func again(dir, mark string) *exec.Cmd {
	command := exec.Command("/proc/self/exe", "-test.run", "^$")
	command.Env = append(os.Environ(), inside+"=", leaves+"="+mark, "TMPDIR="+dir)
	return command
}

func nothingIsLeft(t *testing.T, mark, dir string) {
	t.Helper()
	if left := processes(t, mark); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if _, err := os.Stat(groupOf(mark)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the control group is left: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%s is left in %s", left[0].Name(), dir)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	if strings.Contains(string(mounts), dir) {
		t.Error("a mount is left")
	}
}

func groupOf(mark string) string {
	if _, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers")); err == nil {
		return filepath.Join(cgroups, "berth-t"+mark)
	}
	return filepath.Join(cgroups, "freezer", "berth-t"+mark)
}

func processes(t *testing.T, mark string) (found []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, path := range lines {
		if line, _ := os.ReadFile(path); bytes.Equal(line, []byte("sleep\x00"+mark+"\x00")) {
			found = append(found, path)
		}
	}
	return found
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for still := Patiently(time.Minute); still(); time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("not within a minute of a quiet computer: %s", what)
}
