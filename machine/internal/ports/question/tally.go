package question

// Tally is what portd has counted of itself since it told last, and how many connections visitors have open.
type Tally struct {
	Connections int              `json:"connections"`
	TurnedAway  int64            `json:"turned_away"` // connections that were ended without a word
	Refused     map[string]int64 `json:"refused"`     // answers in the place of the app, by reason
}

// Tell tells the cell, which shows it to operators. It returns false where the cell cannot be told now: the counts are still the caller's.
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
