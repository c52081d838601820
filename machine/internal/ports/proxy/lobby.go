package proxy

import (
	"container/list"
	"net/netip"
	"sync"
)

// lobby limits connections. Idle ones need no credential, so a full lobby closes one of them for a new connection.
type lobby struct {
	mu      sync.Mutex
	all     map[*connection]struct{}
	clients map[netip.Addr]*client
	resting list.List // of connections, the longest idle first
}

type client struct {
	many    int
	resting list.List
}

// seat is a connection's place in the lobby, guarded by the lobby's lock.
type seat struct {
	group       netip.Addr
	requests    int
	of, ofGroup *list.Element // nil if the connection is not idle
}

func (l *lobby) enter(c *connection, each, all int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all, l.clients = map[*connection]struct{}{}, map[netip.Addr]*client{}
	}
	have := 0
	if known := l.clients[c.seat.group]; known != nil {
		have = known.many
	}
	if have >= each || len(l.all) >= all && !l.makeRoom(have) {
		return false
	}
	of := l.clients[c.seat.group]
	if of == nil {
		of = &client{}
		l.clients[c.seat.group] = of
	}
	of.many++
	l.all[c] = struct{}{}
	l.rest(c)
	return true
}

// makeRoom closes an idle connection. The client with the most loses the one that was idle longest. If no client has
// more than the newcomer, the longest idle of all is closed.
func (l *lobby) makeRoom(have int) bool {
	var most *client
	for _, each := range l.clients {
		if each.resting.Len() > 0 && (most == nil || each.many > most.many) {
			most = each
		}
	}
	if most == nil {
		return false
	}
	victim := l.resting.Front()
	if most.many > have+1 {
		victim = most.resting.Front()
	}
	c := victim.Value.(*connection)
	l.remove(c)
	c.raw.Close()
	return true
}

func (l *lobby) spare() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.makeRoom(0)
}

func (l *lobby) leave(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(c)
}

func (l *lobby) remove(c *connection) {
	if _, here := l.all[c]; !here {
		return
	}
	l.wake(c)
	delete(l.all, c)
	of := l.clients[c.seat.group]
	if of.many--; of.many == 0 {
		delete(l.clients, c.seat.group)
	}
}

func (l *lobby) begin(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.seat.requests++; c.seat.requests == 1 {
		l.wake(c)
	}
}

func (l *lobby) end(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.seat.requests--; c.seat.requests == 0 {
		l.rest(c)
	}
}

func (l *lobby) rest(c *connection) {
	if _, here := l.all[c]; here {
		c.seat.of, c.seat.ofGroup = l.resting.PushBack(c), l.clients[c.seat.group].resting.PushBack(c)
	}
}

func (l *lobby) wake(c *connection) {
	if c.seat.of != nil {
		l.resting.Remove(c.seat.of)
		l.clients[c.seat.group].resting.Remove(c.seat.ofGroup)
		c.seat.of, c.seat.ofGroup = nil, nil
	}
}

func (l *lobby) many() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

func (l *lobby) each(visit func(*connection)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.all {
		visit(c)
	}
}
