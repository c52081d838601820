package question

// Tell returns false without a connection to the cell. The caller then adds the counts to a later report.
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
