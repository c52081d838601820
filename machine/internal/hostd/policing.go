package hostd

import (
	"context"
	"sync"
)

// policing lets one change of a machine's policy happen at a time. The release of its network is one of them: what is told of its address
// afterwards would be told of the next machine there.
type policing struct {
	mu    sync.Mutex
	turns map[string]*policingTurn // by slot
}

type policingTurn struct {
	token chan struct{}
	users int
}

func (p *policing) acquire(ctx context.Context, slot string) (release func(), err error) {
	p.mu.Lock()
	if p.turns == nil {
		p.turns = map[string]*policingTurn{}
	}
	turn := p.turns[slot]
	if turn == nil {
		turn = &policingTurn{token: make(chan struct{}, 1)}
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

// turn waits as long as it takes: whoever has the turn gives it back.
func (p *policing) turn(slot string) (end func()) {
	end, _ = p.acquire(context.Background(), slot)
	return end
}
