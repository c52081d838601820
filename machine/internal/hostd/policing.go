package hostd

import (
	"context"
	"sync"
)

// policing serializes the policy changes and the release of a machine. A change after the release would apply to the
// next machine at the address.
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

// lock waits without a limit, because every holder releases the lock.
func (p *policing) lock(slot string) (end func()) {
	end, _ = p.acquire(context.Background(), slot)
	return end
}
