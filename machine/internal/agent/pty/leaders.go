package pty

// Leaders includes ended terminals, whose background processes may still run.
func (m *Manager) Leaders() map[int]string {
	leaders := map[int]string{}
	for _, t := range m.all() { // oldest first: a reused pid belongs to the later terminal
		t.mu.Lock()
		pid, id := t.record.PID, t.record.SessionID
		t.mu.Unlock()
		if pid != nil {
			leaders[*pid] = id
		}
	}
	return leaders
}
