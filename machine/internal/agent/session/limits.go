package session

import "golang.org/x/sys/unix"

// Ending precedes a kill by the guard, and does not block. The command reports the reason unless it exits with 0. pid 0
// is all processes.
func (m *Manager) Ending(pid int, reason string) {
	leader := pid
	if pid != 0 {
		// Each command is a kernel session.
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
