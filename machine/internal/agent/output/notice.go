package output

import "sync"

// Notice wakes all waiters. Call Next, check the state, then wait: otherwise a change is missed.
type Notice struct {
	mu      sync.Mutex
	changed chan struct{}
}

// Next is closed by the next Wake.
func (n *Notice) Next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.changed
}

func (n *Notice) Wake() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}
