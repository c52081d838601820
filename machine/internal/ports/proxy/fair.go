package proxy

import (
	"sync"

	"github.com/berth-dev/berth/machine/internal/ports/door"
)

// fair limits exchanges by key. At the total limit, the key with the most exchanges loses one to a key with fewer.
type fair[K comparable] struct {
	mu   sync.Mutex
	of   map[K]map[*exchange]struct{}
	many int
}

// Up to this number, empty maps are kept, because most keys are soon used again.
const emptyKept = 256

func (f *fair[K]) enter(key K, e *exchange, each, all int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	mine := f.of[key]
	if len(mine) >= each || f.many >= all && !f.makeRoom(len(mine)) {
		return false
	}
	if mine == nil {
		if f.of == nil {
			f.of = map[K]map[*exchange]struct{}{}
		}
		mine = map[*exchange]struct{}{}
		f.of[key] = mine
	}
	mine[e] = struct{}{}
	f.many++
	return true
}

func (f *fair[K]) makeRoom(have int) bool {
	var most K
	for key, those := range f.of {
		if len(those) > len(f.of[most]) {
			most = key
		}
	}
	if len(f.of[most]) <= have+1 {
		return false
	}
	for victim := range f.of[most] {
		f.drop(most, victim)
		go victim.Cut(door.Refuse("too_many_requests"))
		break
	}
	return true
}

func (f *fair[K]) leave(key K, e *exchange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(key, e)
}

func (f *fair[K]) drop(key K, e *exchange) {
	those := f.of[key]
	if _, here := those[e]; !here {
		return
	}
	f.many--
	if delete(those, e); len(those) == 0 && len(f.of) > emptyKept {
		delete(f.of, key)
	}
}

func (f *fair[K]) all() (those []*exchange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, of := range f.of {
		for e := range of {
			those = append(those, e)
		}
	}
	return those
}
