package guest

import (
	"errors"
	"syscall"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/spawn"
)

// Signal sends a signal to a process by its pid inside the guest.
func (g *Guest) Signal(guestPID int, signal syscall.Signal) error {
	in, err := g.acquire()
	if err != nil {
		return err
	}
	ended, err := in.spawner.Signal(guestPID, signal)
	in.starts.Done()
	if ended != 0 {
		g.reaper.Forget(ended)
	}
	// Init has died, and every process with it, so the process no longer exists.
	if errors.Is(err, spawn.ErrBroken) {
		g.retire(in)
		return syscall.ESRCH
	}
	var failed *spawn.StartError
	if errors.As(err, &failed) {
		switch {
		case failed.Stage == spawn.StageSlow:
			return fail.Timeout("The signal could not be sent in time")
		case failed.Errno == syscall.EAGAIN:
			return fail.RateLimited("resource_limit", "The workspace is at a resource limit")
		}
		return failed.Errno
	}
	return err
}
