package spawn

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// machine/runsc adds this value of PR_SET_DUMPABLE. Processes in a lower PID namespace cannot inspect or trace the
// process, or take its descriptors, with any capability. execve resets the value.
const dumpHidden = 3

// Until execve the guest sees the workers' children, which share the workers' memory. /proc/PID/exe of a child is a
// sealed memory file, so a guest cannot open the agent's binary.
func hide(program int) error {
	if err := unix.Prctl(unix.PR_SET_MM, unix.PR_SET_MM_EXE_FILE, uintptr(program), 0, 0); err != nil {
		return fmt.Errorf("naming another program: %w", err)
	}
	err := unix.Prctl(unix.PR_SET_DUMPABLE, dumpHidden, 0, 0, 0)
	if errors.Is(err, unix.EINVAL) {
		// Without the engine of machine/runsc the guest's root can read a worker's memory. This is accepted, because the
		// memory has no keys.
		err = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	if err != nil {
		return fmt.Errorf("hiding the process: %w", err)
	}
	return nil
}
