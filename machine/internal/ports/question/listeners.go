package question

import (
	"context"
	"net/netip"
	"time"
)

const (
	lookMax  = 2 * time.Second        // time limit of the cell's answer
	lookKept = 100 * time.Millisecond // one look serves all requests to the same port within this time
)

type look struct {
	target    Target
	began     time.Time
	done      chan struct{} // closed when the answer has arrived
	addresses []netip.Addr
}

// Listeners returns the addresses on which the app listens. It returns nil if the machine cannot list them, and an
// empty list if there are none.
func (u *Use) Listeners(ctx context.Context) []netip.Addr {
	l := u.lease.link
	found := l.lookAt(u)
	if found == nil {
		return nil
	}
	timer := time.NewTimer(lookMax)
	defer timer.Stop()
	select {
	case <-found.done:
		return found.addresses
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

func (l *Link) lookAt(u *Use) *look {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if recent := l.looks[u.Target]; recent != nil && now.Sub(recent.began) < lookKept {
		return recent
	}
	if l.session == nil || u.lease.state != granted {
		return nil
	}
	l.lastID++
	begun := &look{target: u.Target, began: now, done: make(chan struct{})}
	l.looks[u.Target], l.looking[l.lastID] = begun, begun
	l.send(sent{Look: &lookFrame{l.lastID, u.lease.id}})
	return begun
}

func (l *Link) receiveListeners(listeners *listenersFrame) {
	found := l.looking[listeners.ID]
	if found == nil {
		return
	}
	delete(l.looking, listeners.ID)
	found.addresses = parseAddresses(listeners.Addresses)
	close(found.done)
}

// parseAddresses ignores invalid texts, because a guest sends them.
func parseAddresses(texts []string) []netip.Addr {
	if texts == nil {
		return nil
	}
	addresses := make([]netip.Addr, 0, len(texts))
	for _, text := range texts {
		address, err := netip.ParseAddr(text)
		if err != nil || address.Zone() != "" {
			return nil
		}
		addresses = append(addresses, address.Unmap())
	}
	return addresses
}

func (l *Link) forgetLooks(now time.Time) {
	for id, each := range l.looking {
		if now.Sub(each.began) > lookMax {
			delete(l.looking, id)
			close(each.done)
		}
	}
	for target, each := range l.looks {
		if now.Sub(each.began) > lookMax {
			delete(l.looks, target)
		}
	}
}
