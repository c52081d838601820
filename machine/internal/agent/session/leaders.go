package session

import "github.com/berth-dev/berth/machine/internal/agent/record"

// Leaders says which pid, as the guest sees it, led which session: the running ones, and those remembered that have ended, whose
// background processes may live on.
func (m *Manager) Leaders() map[int]string {
	m.mu.Lock()
	known := make([]*Session, 0, len(m.known))
	for _, s := range m.known {
		known = append(known, s)
	}
	m.mu.Unlock()
	leaders := make(map[int]string, len(known))
	for _, s := range known {
		select {
		case <-s.ready:
		default:
			continue // still being started
		}
		s.mu.Lock()
		pid, id, running := s.record.PID, s.record.SessionID, s.record.State == record.Running
		s.mu.Unlock()
		if pid == nil {
			continue
		}
		// A number that was used again is the running one's.
		if _, taken := leaders[*pid]; running || !taken {
			leaders[*pid] = id
		}
	}
	return leaders
}
