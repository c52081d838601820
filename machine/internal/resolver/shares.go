package resolver

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	asksMax      = 64   // questions of one machine that wait for an answer
	asksMin      = 8    // what it may always have, whatever all the others do
	asksTogether = 4096 // of all machines; each has a socket of the host

	asksPerSecond = 200 // of one machine, over time
	asksBurst     = 500
)

// shares bounds what each machine may ask at once and over time. No machine can use up what another one needs: while many ask, the
// bound of each shrinks to its share of the whole, and never below asksMin.
type shares struct {
	mu     sync.Mutex
	of     map[netip.Addr]*share // of each address that ever asked: there are 65,536 at most
	asking int                   // how many of them wait for an answer
}

type share struct {
	asks int
	pace *rate.Limiter
}

func (s *shares) open() { s.of = map[netip.Addr]*share{} }

// enter says whether the machine may ask once more. If so, it leaves when it has its answer.
func (s *shares) enter(machine netip.Addr, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.of[machine]
	if mine == nil {
		mine = &share{pace: rate.NewLimiter(asksPerSecond, asksBurst)}
		s.of[machine] = mine
	}
	others := s.asking
	if mine.asks > 0 {
		others--
	}
	if mine.asks >= min(asksMax, max(asksMin, asksTogether/(others+1))) || !mine.pace.AllowN(now, 1) {
		return false
	}
	if mine.asks++; mine.asks == 1 {
		s.asking++
	}
	return true
}

func (s *shares) leave(machine netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.of[machine]
	if mine.asks--; mine.asks == 0 {
		s.asking--
	}
}
