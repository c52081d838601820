// Package ongoing counts work in the background, so that a caller can wait for its end.
package ongoing

import "sync"

// Group is for work that may begin while a goroutine waits for all of it, which sync.WaitGroup does not allow.
type Group struct {
	mu    sync.Mutex
	count int
	idle  chan struct{} // nil if no goroutine waits
}

func (g *Group) Go(f func()) {
	g.mu.Lock()
	g.count++
	g.mu.Unlock()
	go func() {
		defer g.done()
		f()
	}()
}

func (g *Group) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count--; g.count == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// Idle returns a channel that closes as soon as no work is running.
func (g *Group) Idle() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	idle := g.idle
	if idle == nil {
		idle = make(chan struct{})
		if g.count == 0 {
			close(idle)
			return idle
		}
		g.idle = idle
	}
	return idle
}
