package question

import (
	"sync"

	"github.com/berth-dev/berth/machine/internal/ports/door"
)

// cutUses cuts streams in parallel, so that a slow one does not delay others.
func (l *Link) cutUses(users map[*Use]struct{}, refusal *door.Refusal) {
	if len(users) == 0 {
		return
	}
	var left sync.WaitGroup
	for use := range users {
		use.ended = refusal
		left.Go(func() { use.cut(refusal) })
	}
	done := make(chan struct{})
	l.cutting[done] = struct{}{}
	go func() {
		left.Wait()
		close(done)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.cutting, done)
	}()
}

// settle answers the frame when all cuts have finished. It also waits for leases that the cell has not confirmed since
// the reconnect, because these may have been revoked.
func (l *Link) settle(frame *settleFrame) {
	asked, cuts := l.session, l.cuts()
	var unconfirmed []*Lease
	for _, lease := range l.leases {
		if lease.state == asking && len(lease.users) > 0 {
			unconfirmed = append(unconfirmed, lease)
		}
	}
	go func() {
		awaitAll(cuts)
		for _, lease := range unconfirmed {
			l.awaitConfirmed(lease)
		}
		l.mu.Lock()
		cuts := l.cuts() // including those of unconfirmed leases
		l.mu.Unlock()
		awaitAll(cuts)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.session == asked {
			l.send(sent{Settled: frame})
		}
	}()
}

func (l *Link) cuts() (those []chan struct{}) {
	for done := range l.cutting {
		those = append(those, done)
	}
	return those
}

func awaitAll(those []chan struct{}) {
	for _, done := range those {
		<-done
	}
}

func (l *Link) awaitConfirmed(lease *Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for lease.state == asking {
		changed := lease.changed
		l.mu.Unlock()
		<-changed
		l.mu.Lock()
	}
}
