package question

import (
	"context"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/door"
)

// Visitor is a request that needs a lease.
type Visitor interface {
	// Unproven is called before the cell checks the credential. It may refuse the request because of a limit.
	Unproven() *door.Refusal
	// Proven is called when the cell has accepted the credential. The request is then counted for its workspace, and
	// may be refused because of a limit.
	Proven() *door.Refusal
	// Cut is called at most once, if the lease ends before End has returned.
	Cut(*door.Refusal)
}

func (l *Link) Acquire(ctx context.Context, question Question, visitor Visitor) (*Use, *door.Refusal) {
	key := leaseKey{question.Place, question.Credential}
	for at := nowhere; ; {
		l.mu.Lock()
		lease := l.liveLease(key, time.Now())
		if lease != nil && l.session != nil {
			if use := lease.use(visitor.Cut); use != nil {
				l.mu.Unlock()
				return placed(use, at, visitor)
			}
		}
		if next := l.placeFor(key, lease); at < next {
			l.mu.Unlock()
			if refusal := next.take(visitor); refusal != nil {
				return nil, refusal
			}
			at = next
			continue
		}
		if l.session == nil {
			l.mu.Unlock()
			if !l.awaitSession(ctx) {
				return nil, door.Refuse("unavailable")
			}
			continue
		}
		if lease == nil {
			var refusal *door.Refusal
			if lease, refusal = l.newLease(key, question, time.Now()); refusal != nil {
				l.mu.Unlock()
				return nil, refusal
			}
		}
		if refusal, again := l.waitFor(ctx, lease); !again {
			return nil, refusal
		}
	}
}

// Likely orders credentials: those that were accepted before come first.
func (l *Link) Likely(place door.Place, shown []door.Credential) []door.Credential {
	if len(shown) < 2 {
		return shown
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ordered := make([]door.Credential, 0, len(shown))
	for _, good := range []bool{true, false} {
		for _, each := range shown {
			if l.budgets.good.has(leaseKey{place, each}) == good {
				ordered = append(ordered, each)
			}
		}
	}
	return ordered
}

type waitingPlace uint8

const (
	nowhere waitingPlace = iota
	amongStrangers
	ofItsWorkspace
)

func (l *Link) placeFor(key leaseKey, lease *Lease) waitingPlace {
	if lease != nil && lease.proven || lease == nil && l.budgets.good.has(key) {
		return ofItsWorkspace
	}
	return amongStrangers
}

func (p waitingPlace) take(visitor Visitor) *door.Refusal {
	if p == ofItsWorkspace {
		return visitor.Proven()
	}
	return visitor.Unproven()
}

func placed(use *Use, at waitingPlace, visitor Visitor) (*Use, *door.Refusal) {
	if at < ofItsWorkspace {
		if refusal := visitor.Proven(); refusal != nil {
			use.End()
			return nil, refusal
		}
	}
	return use, nil
}

func (l *Link) liveLease(key leaseKey, now time.Time) *Lease {
	lease := l.leases[key]
	if lease != nil && !lease.expires.IsZero() && now.After(lease.expires) {
		l.count(lease, now)
		l.cutAll(lease, expired())
		return nil
	}
	return lease
}

func (l *Link) newLease(key leaseKey, question Question, now time.Time) (*Lease, *door.Refusal) {
	if refusal := l.refused.find(key, now); refusal != nil {
		return nil, refusal
	}
	if len(l.leases) >= leasesMax {
		l.makeRoom(now)
	}
	if len(l.leases) >= leasesMax || !l.budgets.take(question, key, now) {
		return nil, door.Refuse("too_many_requests")
	}
	lease := &Lease{link: l, question: question, changed: make(chan struct{}), users: map[*Use]struct{}{}, usedAt: now, countedAt: now}
	lease.proven = l.budgets.good.has(key)
	l.leases[key] = lease
	l.ask(lease)
	return lease, nil
}

// makeRoom releases a twentieth of all leases at once, because the search is slow. They are unused ones of the
// workspace that has the most.
func (l *Link) makeRoom(now time.Time) {
	of, most := map[string]int{}, ""
	for _, lease := range l.leases {
		if lease.isFree() {
			id := lease.question.Place.HostID
			if of[id]++; of[id] > of[most] {
				most = id
			}
		}
	}
	left := leasesMax / 20
	for _, lease := range l.leases {
		if left > 0 && lease.isFree() && lease.question.Place.HostID == most {
			l.giveBack(lease, now)
			left--
		}
	}
}

func (lease *Lease) isFree() bool {
	return lease.state == granted && len(lease.users) == 0 && lease.waiting == 0
}

func (l *Link) giveBack(lease *Lease, now time.Time) {
	l.count(lease, now)
	l.send(sent{Release: &releaseFrame{lease.id, now.Sub(lease.usedAt).Milliseconds()}})
	l.finish(lease, nil)
}
