package question

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/door"
)

const (
	idleAfter    = time.Second      // a lease unused for this long is reported as idle to the cell, with the time since its last use
	releaseAfter = 10 * time.Second // a lease unused for this long is released
	countEvery   = 5 * time.Second
)

type Question struct {
	Place      door.Place
	Credential door.Credential
	WebSocket  bool
	Method     string
	Client     netip.Addr
}

type Target struct {
	WorkspaceID string
	Address     string
	Port        int
	Epoch       int64
}

type leaseKey struct {
	place      door.Place
	credential door.Credential
}

type leaseState uint8

const (
	asking leaseState = iota
	granted
	ended
)

// Lease permits requests with one credential to one port.
type Lease struct {
	link     *Link
	question Question
	target   Target

	// The following fields are guarded by the link's lock.
	id               uint64 // of the lease, or of the question while it is pending
	state            leaseState
	proven           bool          // the credential was accepted at the last check
	refusal          *door.Refusal // why the lease ended; nil: asking again may succeed
	changed          chan struct{} // closed at the next change of state
	waiting          int
	users            map[*Use]struct{}
	idle             bool // the cell was told that the lease is unused
	busyAsked        bool // a busy frame was sent for the current use
	expires          time.Time
	usedAt           time.Time
	countedAt        time.Time
	unconfirmedUntil time.Time // the cell has not granted the lease again since the reconnect; its streams are cut at this time

	requests, received, sent atomic.Int64
}

type Use struct {
	lease  *Lease
	Target Target
	cut    func(*door.Refusal)
	ended  *door.Refusal // under the link's lock
}

// Moved is the reason of a refusal after which asking again may succeed.
const Moved = "machine_moved"

func expired() *door.Refusal {
	return &door.Refusal{Status: 401, Reason: "credential_expired", Message: "This credential has expired."}
}

func (l *Link) ask(lease *Lease) {
	l.lastID++
	lease.id, lease.state = l.lastID, asking
	l.asked[lease.id] = lease
	l.send(sent{Ask: askOf(lease.id, lease.question)})
}

func askOf(id uint64, q Question) *askFrame {
	return &askFrame{id, q.Place.HostID, q.Place.Port, q.Credential, q.WebSocket, q.Method, q.Client.String()}
}

// use returns nil while the lease is idle: the machine may be suspended, so the cell is asked first.
func (lease *Lease) use(cut func(*door.Refusal)) *Use {
	if lease.state != granted {
		return nil
	}
	if lease.idle {
		if !lease.busyAsked {
			lease.busyAsked = true
			lease.link.send(sent{Busy: &leaseFrame{lease.id}})
		}
		return nil
	}
	use := &Use{lease: lease, Target: lease.target, cut: cut}
	lease.users[use] = struct{}{}
	lease.requests.Add(1)
	return use
}

// waitFor waits for the lease's next state. The caller must hold the lock, which is released during the wait.
func (l *Link) waitFor(ctx context.Context, lease *Lease) (refusal *door.Refusal, again bool) {
	changed := lease.changed
	lease.waiting++
	l.mu.Unlock()
	var late bool
	select {
	case <-changed:
	case <-ctx.Done():
		late = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	lease.waiting--
	if late {
		l.giveUp(lease)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return door.Refuse("starting_timeout"), false
		}
		return door.Refuse("request_timeout"), false // the visitor has gone and reads no answer
	}
	return lease.refusal, lease.refusal == nil
}

func (l *Link) giveUp(lease *Lease) {
	if lease.state != asking || lease.waiting > 0 || len(lease.users) > 0 {
		return
	}
	delete(l.asked, lease.id)
	l.send(sent{Abort: &abortFrame{lease.id}})
	l.finish(lease, nil)
}

func (l *Link) finish(lease *Lease, refusal *door.Refusal) {
	if lease.state == ended {
		return
	}
	delete(l.leases, leaseKey{lease.question.Place, lease.question.Credential})
	if lease.state == granted {
		delete(l.granted, lease.id)
	}
	lease.state, lease.refusal = ended, refusal
	lease.announce()
}

func (lease *Lease) announce() {
	close(lease.changed)
	lease.changed = make(chan struct{})
}

func (l *Link) cutAll(lease *Lease, refusal *door.Refusal) {
	users := lease.users
	lease.users = map[*Use]struct{}{}
	if refusal.Status == 401 || refusal.Status == 404 {
		l.budgets.good.forget(leaseKey{lease.question.Place, lease.question.Credential})
	}
	if lease.state == asking {
		delete(l.asked, lease.id)
	}
	if refusal.Reason == Moved {
		l.finish(lease, nil)
	} else {
		l.finish(lease, refusal)
	}
	l.cutUses(users, refusal)
}

func (u *Use) End() {
	l := u.lease.link
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(u.lease.users, u)
	u.lease.usedAt = time.Now()
}

// Ended returns why the request was cut, or nil.
func (u *Use) Ended() *door.Refusal {
	l := u.lease.link
	l.mu.Lock()
	defer l.mu.Unlock()
	return u.ended
}

// Received and Sent count bytes from and to the visitor.
func (u *Use) Received(bytes int) { u.lease.received.Add(int64(bytes)) }
func (u *Use) Sent(bytes int)     { u.lease.sent.Add(int64(bytes)) }

func (l *Link) count(lease *Lease, now time.Time) {
	if lease.state != granted {
		return
	}
	lease.countedAt = now
	requests, received, back := lease.requests.Swap(0), lease.received.Swap(0), lease.sent.Swap(0)
	if requests != 0 || received != 0 || back != 0 {
		l.send(sent{Count: &countFrame{lease.id, requests, received, back}})
	}
}

// lookAfter runs periodically, because no request triggers these reports and cuts.
func (l *Link) lookAfter(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lease := range l.leases {
		switch {
		case !lease.unconfirmedUntil.IsZero() && now.After(lease.unconfirmedUntil):
			l.cutAll(lease, door.Refuse("unavailable"))
		case !lease.expires.IsZero() && now.After(lease.expires):
			l.count(lease, now)
			l.cutAll(lease, expired())
		case lease.state == granted && l.session != nil:
			l.report(lease, now)
		}
	}
	l.refused.forget(now)
	l.forgetLooks(now)
}

func (l *Link) report(lease *Lease, now time.Time) {
	unused := now.Sub(lease.usedAt)
	free := len(lease.users) == 0 && lease.waiting == 0
	switch {
	case free && unused >= releaseAfter:
		l.giveBack(lease, now)
		return
	case free && !lease.idle && unused >= idleAfter:
		lease.idle = true
		l.send(sent{Idle: &idleFrame{lease.id, unused.Milliseconds()}})
	}
	if now.Sub(lease.countedAt) >= countEvery {
		l.count(lease, now)
	}
}
