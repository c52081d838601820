package question

// Tell returns false if the caller keeps the counts.
func (l *Link) Tell(tally Tally) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == nil {
		return false
	}
	if tally.Connections == l.toldConnections && tally.TurnedAway == 0 && len(tally.Refused) == 0 {
		return true
	}
	l.toldConnections = tally.Connections
	l.send(sent{Tally: &tally})
	return true
}
