package spawn

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signal sends the signal from a child in the guest's PID namespace, because the sandbox's kernel does not map pids.
// The caller must reap ended, unless it is 0.
func (s *Spawner) Signal(guestPID int, signal syscall.Signal) (ended int, err error) {
	// kill treats 0 and negative pids as groups or all processes, so they are refused.
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
