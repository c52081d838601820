// Package fairshare bounds what many callers hold of one thing, so that none can use up what another needs.
package fairshare

import "sync"

// Shares is what callers hold. While few hold anything, each may hold Each. While many do, the bound of each shrinks to an even part of Together.
// Never below Least, so no caller is shut out before All is reached.
type Shares[K comparable] struct {
	Each, Least, Together int
	// All bounds what all callers hold, even where a caller has less than Least. Shares that shrink can sum up to more than Together. 0: no bound.
	All int

	mu    sync.Mutex
	held  map[K]int
	total int
}

// Take holds one more for a caller, unless it has its share.
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

// Give gives one back.
func (s *Shares[K]) Give(caller K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.held[caller]--; s.held[caller] == 0 {
		delete(s.held, caller)
	}
}
