// Package ongoing counts what goes on in the background.
package ongoing

import "sync"

// Group is for work that may begin while somebody waits for the end of all of it, which a sync.WaitGroup does not allow.
type Group struct {
	mu    sync.Mutex
	count int
	idle  chan struct{} // nil: nobody waits
}

// Go runs f on a goroutine of its own.
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

// Idle is closed as soon as nothing goes on.
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
