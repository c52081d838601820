package pty

// Leaders says which pid, as the guest sees it, led which terminal: the running ones, and those that have ended, whose background
// processes may live on.
func (m *Manager) Leaders() map[int]string {
	leaders := map[int]string{}
	for _, t := range m.all() { // oldest first: a number that was used again is the later one's
		t.mu.Lock()
		pid, id := t.record.PID, t.record.SessionID
		t.mu.Unlock()
		if pid != nil {
			leaders[*pid] = id
		}
	}
	return leaders
}
