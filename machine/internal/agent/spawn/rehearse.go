package spawn

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/rehearse"
)

// rehearsed is how many processes live at once in a rehearsal: the guest's init, its first command, and one that this starts.
const rehearsed = 3

// rehearseUnlessWanted waits a moment for the agent to close the socket, which it does as soon as it has a guest.
func rehearseUnlessWanted(socket, program int) {
	if !readable(socket, rehearse.Quiet) {
		rehearseProcesses(program)
	}
}

func readable(socket int, within time.Duration) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(socket), Events: unix.POLLIN}}, int(within.Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return err != nil || n > 0
		}
	}
}

// rehearseProcesses starts processes as the claim and the first commands will, and ends them. The sandbox's kernel keeps what it made
// for a process that has ended, and takes it for the next: making it anew is the dearest part of a start.
func rehearseProcesses(program int) {
	m := newInit(program)
	m.mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "", false)
	sleeper, err := m.becomeInit()
	if err != nil {
		return // a claim that would fail as well says so itself
	}
	var started []int
	for range rehearsed {
		if r := runHere(sleeper); r.pid > 0 {
			started = append(started, int(r.pid))
		}
	}
	for _, pid := range started {
		_ = unix.Kill(pid, unix.SIGKILL) // one that failed has ended by itself
	}
	for _, pid := range started {
		for {
			if _, err := unix.Wait4(pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
}
