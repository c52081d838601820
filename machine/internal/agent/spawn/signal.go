package spawn

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signal sends a signal to a process by its pid as the guest sees it. A child born in the guest's PID namespace does it: the agent
// has no number for that process, since the sandbox's kernel tells nobody how the pids of two namespaces correspond. ended is that
// child's pid, when not 0: it is to be waited for.
func (s *Spawner) Signal(guestPID int, signal syscall.Signal) (ended int, err error) {
	// Of kill(2), neither a group nor everybody.
	if guestPID <= 1 || signal < 1 || signal > 64 {
		return 0, &StartError{Stage: StageSignal, Errno: syscall.EINVAL}
	}
	b := &builder{header: header{clone: vforkFlags | unix.CLONE_PARENT}}
	b.add(StageSignal, false, unix.SYS_KILL, numbers(uintptr(guestPID), uintptr(signal))...)
	b.add(StageSignal, false, unix.SYS_EXIT, number(0))
	program, err := b.build()
	if err != nil {
		return 0, err
	}
	started, err := s.run(program, nil, nil)
	var failed *StartError
	if errors.As(err, &failed) {
		return failed.PID, err
	}
	return started.PID, err
}
