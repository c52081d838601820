// Package fairshare bounds each caller's share of a limited resource, so that no caller can use it up.
package fairshare

import "sync"

// Shares counts what each caller holds. With few callers each may hold Each; with many, an equal part of Together, but
// never less than Least.
type Shares[K comparable] struct {
	Each, Least, Together int
	// All bounds the total, even if a caller has less than Least; 0 is no bound. The shares can add up to more than
	// Together, because each shrinks when a caller joins.
	All int

	mu    sync.Mutex
	held  map[K]int
	total int
}

// Take adds one to what the caller holds, or returns false if the caller already has its share.
func (s *Shares[K]) Take(caller K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.held[caller]
	others := len(s.held)
	if mine > 0 {
		others--
	}
	if s.All > 0 && s.total >= s.All || mine >= min(s.Each, max(s.Least, s.Together/(others+1))) {
		return false
	}
	if s.held == nil {
		s.held = map[K]int{}
	}
	s.held[caller] = mine + 1
	s.total++
	return true
}

func (s *Shares[K]) Give(caller K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.held[caller]--; s.held[caller] == 0 {
		delete(s.held, caller)
	}
}
