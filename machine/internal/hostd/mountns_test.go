package hostd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/testns"
)

const pinVariable = "BERTH_TEST_PIN"

func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func pinInFreshNamespace(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	processor, err := strconv.Atoi(os.Getenv(pinVariable + "_ON"))
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := onProcessor(processor); err != nil {
		return err
	}
	pin := pinPath(dir)
	if err := makeNamespace(pin); err != nil {
		return err
	}
	if pinned, err := isPinned(pin); err != nil || !pinned {
		return fmt.Errorf("the pin does not hold a namespace: %w", err)
	}
	return nil
}

func onProcessor(number int) error {
	var one unix.CPUSet
	one.Set(number)
	return unix.SchedSetaffinity(0, &one)
}

func TestANamespaceIsPinnedWhateverProcessorTheOneAroundItWasMadeOn(t *testing.T) {
	testns.Needs(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	must(t, unix.SchedGetaffinity(0, &all))
	defer func() { must(t, unix.SchedSetaffinity(0, &all)) }()
	for around := range min(runtime.NumCPU(), 4) {
		for within := range min(runtime.NumCPU(), 4) {
			must(t, onProcessor(around))
			child := exec.Command("/proc/self/exe")
			child.Env = append(os.Environ(), pinVariable+"="+filepath.Join(t.TempDir(), "run"), pinVariable+"_ON="+strconv.Itoa(within))
			child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
			if output, err := child.CombinedOutput(); err != nil {
				t.Errorf("made on processor %d, pinned from processor %d: %v: %s", around, within, err, output)
			}
		}
	}
}
