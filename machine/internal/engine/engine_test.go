package engine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/testns"
)

func TestAProcessIsKnownByItsStartAndItsEndIsSeen(t *testing.T) {
	command := exec.Command("sleep", "100")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	process, err := FindProcess(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if !process.Alive() {
		t.Fatal("a running process is not alive")
	}
	impostor := process
	impostor.Start++
	if impostor.Alive() {
		t.Fatal("a process with the same number and another start counts as the same")
	}
	if _, err := impostor.watch(); err == nil {
		t.Fatal("an impostor is watched")
	}
	done, err := process.watch()
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-done:
		t.Fatal("the end was seen before it came")
	default:
	}
	command.Process.Kill()
	select {
	case <-done:
	case <-time.After(testns.Patience(time.Minute)):
		t.Fatal("the end was not seen")
	}
	if process.Alive() {
		t.Error("a zombie counts as alive")
	}
	command.Wait()
}

func TestAGuestIsPausedWhenAllItsTasksStandInDoStop(t *testing.T) {
	const stopped = "goroutine 9 [semacquire]:\ngvisor.dev/gvisor/pkg/sentry/kernel.(*Task).doStop(0xc0)\n\tx.go:1\ngvisor.dev/gvisor/pkg/sentry/kernel.(*Task).run(0xc0, 0x1)\n\tx.go:2"
	const running = "goroutine 8 [select]:\ngvisor.dev/gvisor/pkg/sentry/kernel.(*Task).block(0xc0)\n\tx.go:1\ngvisor.dev/gvisor/pkg/sentry/kernel.(*Task).run(0xc0, 0x1)\n\tx.go:2"
	const other = "goroutine 1 [running]:\nmain.main()"
	for _, c := range []struct {
		stacks string
		paused bool
		failed bool
	}{
		{other + "\n\n" + stopped + "\n\n" + stopped, true, false},
		{other + "\n\n" + stopped + "\n\n" + running, false, false},
		{other, false, true},
	} {
		if paused, err := allStopped(c.stacks); paused != c.paused || (err != nil) != c.failed {
			t.Errorf("paused %v, error %v for %q", paused, err, c.stacks)
		}
	}
}

func TestARecordOfAnotherSlotIsNotBelieved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "abc123")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for text, ok := range map[string]bool{
		`{"slot":"abc123","kind":"slot"}`:    true,
		`{"slot":"fff","kind":"slot"}`:       false,
		`{"slot":"abc123","kind":"machine"}`: false,
		``:                                   false,
	} {
		if err := os.WriteFile(filepath.Join(dir, "slot.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readRecord(dir); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestLastWordsAreTheEndOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stderr")
	if words := tail(path); len(words) != 0 {
		t.Errorf("a file that is not there ends with %q", words)
	}
	for text, want := range map[string]string{"": "", "short": "short", strings.Repeat("x", 9999) + "the end": strings.Repeat("x", tailBytes-7) + "the end"} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		if words := tail(path); string(words) != want {
			t.Errorf("%d bytes end with %q", len(text), words)
		}
	}
}
