package resolver

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/berth-dev/berth/machine/internal/fairshare"
)

const (
	asksMax      = 64   // maximum of pending questions of one machine
	asksMin      = 8    // pending questions that each machine may always have
	asksTogether = 4096 // maximum of all machines; each question uses a socket of the host

	asksPerSecond = 200 // of one machine, on average
	asksBurst     = 500
)

type shares struct {
	asking fairshare.Shares[netip.Addr]
	long   fairshare.Shares[netip.Addr] // answers over TCP, which take most of the process's memory

	mu    sync.Mutex
	paces map[netip.Addr]*rate.Limiter // one entry for each address that ever asked, so at most 65,536
}

func (s *shares) open() {
	s.asking.Each, s.asking.Least, s.asking.Together = asksMax, asksMin, asksTogether
	s.long.Each, s.long.Least, s.long.Together, s.long.All = longEach, 1, longMax, longMax
	s.paces = map[netip.Addr]*rate.Limiter{}
}

// enter reports whether the machine may ask now. If so, the caller must call leave afterwards.
func (s *shares) enter(machine netip.Addr, now time.Time) bool {
	if !s.asking.Take(machine) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pace := s.paces[machine]
	if pace == nil {
		pace = rate.NewLimiter(asksPerSecond, asksBurst)
		s.paces[machine] = pace
	}
	if !pace.AllowN(now, 1) {
		s.asking.Give(machine)
		return false
	}
	return true
}

func (s *shares) leave(machine netip.Addr) { s.asking.Give(machine) }

const (
	longMax    = 64 // concurrent TCP questions of all machines
	longEach   = 8  // of one machine, while few ask
	longAnswer = 64 << 10
	readTimes  = 16 // memory of an answer in multiples of its length: twice the measured value
)
