package hostd

import (
	"context"
	"sync"
)

// A policy change after the network's release would reach the next machine at that address.
type policing struct {
	mu    sync.Mutex
	turns map[string]*policyLock
}

type policyLock struct {
	token chan struct{}
	users int
}

func (p *policing) acquire(ctx context.Context, slot string) (release func(), err error) {
	p.mu.Lock()
	if p.turns == nil {
		p.turns = map[string]*policyLock{}
	}
	turn := p.turns[slot]
	if turn == nil {
		turn = &policyLock{token: make(chan struct{}, 1)}
		p.turns[slot] = turn
	}
	turn.users++
	p.mu.Unlock()
	leave := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if turn.users--; turn.users == 0 {
			delete(p.turns, slot)
		}
	}
	select {
	case turn.token <- struct{}{}:
		return func() { <-turn.token; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// Every holder releases the lock, so lock needs no limit.
func (p *policing) lock(slot string) (end func()) {
	end, _ = p.acquire(context.Background(), slot)
	return end
}
