package proxy

import (
	"sync"

	"github.com/berth-dev/berth/machine/internal/ports/question"
)

type tally struct {
	mu         sync.Mutex
	refused    map[string]int64
	turnedAway int64
}

func (t *tally) refuse(reason string) { t.add(map[string]int64{reason: 1}, 0) }

func (t *tally) turnAway() { t.add(nil, 1) }

func (t *tally) add(refused map[string]int64, turnedAway int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turnedAway += turnedAway
	if t.refused == nil {
		t.refused = map[string]int64{}
	}
	for reason, many := range refused {
		t.refused[reason] += many
	}
}

func (t *tally) take() (refused map[string]int64, turnedAway int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	refused, turnedAway = t.refused, t.turnedAway
	t.refused, t.turnedAway = nil, 0
	return refused, turnedAway
}

// tell reports the counts to the cell. Without a connection to the cell it adds them to the next report.
func (s *Server) tell() {
	refused, turnedAway := s.tally.take()
	if !s.options.Link.Tell(question.Tally{Connections: s.lobby.many(), TurnedAway: turnedAway, Refused: refused}) {
		s.tally.add(refused, turnedAway)
	}
}
