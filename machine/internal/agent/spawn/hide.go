package spawn

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// dumpHidden is a value of PR_SET_DUMPABLE that machine/runsc adds to gVisor. Processes in a PID namespace below the
// sandbox's cannot inspect or trace such a process, or take its descriptors, with any capability. execve resets it.
const dumpHidden = 3

// hide protects this process against the guest, which sees its workers' children from fork to execve. They share the
// workers' memory, and their /proc/PID/exe names the workers' binary. So exe is set to program, a sealed memory file,
// and a guest cannot open the agent's binary.
func hide(program int) error {
	if err := unix.Prctl(unix.PR_SET_MM, unix.PR_SET_MM_EXE_FILE, uintptr(program), 0, 0); err != nil {
		return fmt.Errorf("naming another program: %w", err)
	}
	err := unix.Prctl(unix.PR_SET_DUMPABLE, dumpHidden, 0, 0, 0)
	if errors.Is(err, unix.EINVAL) {
		// The engine is not built by machine/runsc: the guest's root can read a worker's memory, which has no keys.
		err = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	if err != nil {
		return fmt.Errorf("hiding the process: %w", err)
	}
	return nil
}
