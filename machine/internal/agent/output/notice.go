package output

import "sync"

// Notice wakes all waiters. A waiter calls Next, checks the state, and then waits; in another order it could miss a
// change.
type Notice struct {
	mu      sync.Mutex
	changed chan struct{}
}

// Next returns a channel that the next Wake closes.
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
