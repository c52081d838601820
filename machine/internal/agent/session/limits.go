package session

import "golang.org/x/sys/unix"

// The guard calls Ending before a kill; pid 0 means all processes. A killed command reports the reason, unless it
// exits with 0. Ending does not block.
func (m *Manager) Ending(pid int, reason string) {
	leader := pid
	if pid != 0 {
		// Each command is a session of the kernel, whose id is the leader's pid.
		if sid, err := unix.Getsid(pid); err == nil {
			leader = sid
		}
	}
	m.processes.Range(func(key, value any) bool {
		if pid == 0 || value.(int) == leader {
			key.(*Session).limit.Store(&reason)
		}
		return true
	})
}
