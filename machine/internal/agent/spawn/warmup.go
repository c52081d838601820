package spawn

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/rehearse"
)

// Init, the first command, and a child of that command.
const rehearsed = 3

// The agent closes the socket when it has adopted a guest. Then the warm-up is skipped.
func warmUpIfIdle(socket, program int) {
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

// The sandbox's kernel reuses the memory of ended processes. Allocating this memory is the slowest part of a start.
func rehearseProcesses(program int) {
	m := newInit(program)
	m.mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "", false)
	sleeper, err := m.becomeInit()
	if err != nil {
		return // the claim will report the error
	}
	var started []int
	for range rehearsed {
		if r := runHere(sleeper); r.pid > 0 {
			started = append(started, int(r.pid))
		}
	}
	for _, pid := range started {
		_ = unix.Kill(pid, unix.SIGKILL) // a process whose start failed has already exited
	}
	for _, pid := range started {
		for {
			if _, err := unix.Wait4(pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
}
