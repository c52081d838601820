package session

import "golang.org/x/sys/unix"

// Ending notes that a process is about to be ended for a limit of the machine: the command that it belongs to says so, unless it succeeds
// all the same. pid 0 stands for every process. It waits for nothing.
func (m *Manager) Ending(pid int, reason string) {
	leader := pid
	if pid != 0 {
		// Each command is a session of the kernel's.
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
