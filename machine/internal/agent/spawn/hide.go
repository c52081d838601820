package spawn

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// dumpHidden is a value of PR_SET_DUMPABLE that machine/runsc adds to the engine: who lives in a PID namespace below the sandbox's own
// may not look at such a process, trace it or take its descriptors, whatever capabilities it has. It ends with execve.
const dumpHidden = 3

// hide makes nothing of this process reachable through the children of its workers, which the guest sees from fork to execve: they
// share the workers' memory until then, and their /proc/PID/exe names what the workers run. It names the given program from here on, a
// sealed memory file, so that no guest can open the agent's binary by it.
func hide(program int) error {
	if err := unix.Prctl(unix.PR_SET_MM, unix.PR_SET_MM_EXE_FILE, uintptr(program), 0, 0); err != nil {
		return fmt.Errorf("naming another program: %w", err)
	}
	err := unix.Prctl(unix.PR_SET_DUMPABLE, dumpHidden, 0, 0, 0)
	if errors.Is(err, unix.EINVAL) {
		// An engine that machine/runsc did not build: the guest's root can read a worker's memory, in which no key lies.
		err = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	if err != nil {
		return fmt.Errorf("hiding the process: %w", err)
	}
	return nil
}
