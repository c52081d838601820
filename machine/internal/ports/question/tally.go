package question

// Tally counts since the last report, except for connections.
type Tally struct {
	Connections int              `json:"connections"`
	TurnedAway  int64            `json:"turned_away"` // connections closed without an answer
	Refused     map[string]int64 `json:"refused"`     // answers in place of the app, by reason
}

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
