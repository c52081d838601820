package question

import (
	"context"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/door"
)

func (l *Link) receive(frame received) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case frame.Grant != nil:
		return l.receiveGrant(frame.Grant)
	case frame.Known != nil:
		l.receiveKnown(frame.Known)
	case frame.Ready != nil:
		l.receiveReady(frame.Ready)
	case frame.Redirect != nil:
		l.receiveRedirect(frame.Redirect)
	case frame.Refuse != nil:
		l.receiveRefusal(frame.Refuse)
	case frame.Cut != nil:
		l.receiveCut(frame.Cut)
	case frame.Settle != nil:
		l.settle(frame.Settle)
	case frame.Listeners != nil:
		l.receiveListeners(frame.Listeners)
	}
	return nil
}

func (l *Link) receiveGrant(grant *grantFrame) error {
	if grant.Address == "" || grant.Port <= 0 || l.links[grant.ID] != nil {
		return errProtocol
	}
	lease := l.asked[grant.ID]
	if lease == nil { // the visitor has gone
		l.send(sent{Release: &releaseFrame{grant.Lease, 0}})
		return nil
	}
	delete(l.asked, grant.ID)
	target := Target{grant.WorkspaceID, grant.Address, grant.Port, grant.Epoch}
	if len(lease.users) > 0 && target != lease.target {
		l.gone(lease.target)
		lease.cutUsers()
	}
	l.prove(lease)
	lease.id, lease.state, lease.target = grant.Lease, granted, target
	lease.unconfirmedUntil, lease.usedAt, lease.expires = time.Time{}, time.Now(), time.Time{}
	if grant.ExpiresInMS != nil {
		lease.expires = time.Now().Add(time.Duration(*grant.ExpiresInMS) * time.Millisecond)
	}
	l.granted[grant.Lease] = lease
	lease.announce()
	return nil
}

func (l *Link) receiveKnown(known *knownFrame) {
	if lease := l.asked[known.ID]; lease != nil {
		l.prove(lease)
		lease.announce()
	}
}

func (l *Link) prove(lease *Lease) {
	lease.proven = true
	l.budgets.good.remember(leaseKey{lease.question.Place, lease.question.Credential})
}

func (lease *Lease) cutUsers() {
	users := lease.users
	lease.users = map[*Use]struct{}{}
	lease.link.cutUses(users, moved())
}

func moved() *door.Refusal {
	return &door.Refusal{Status: 503, Reason: Moved, Message: "The machine ended, or was suspended, before the app had answered.", RetryAfterSeconds: 1}
}

func (l *Link) gone(target Target) {
	if l.options.Gone != nil {
		l.options.Gone(target.WorkspaceID)
	}
}

func (l *Link) receiveReady(ready *readyFrame) {
	lease := l.granted[ready.Lease]
	if lease == nil || !lease.busyAsked {
		return
	}
	if ready.Address != lease.target.Address || ready.Epoch != lease.target.Epoch {
		l.gone(lease.target)
		lease.target.Address, lease.target.Epoch = ready.Address, ready.Epoch
	}
	lease.idle, lease.busyAsked, lease.usedAt = false, false, time.Now()
	lease.announce()
}

func (l *Link) receiveRefusal(refuse *refuseFrame) {
	refusal := refuse.Refusal
	if refusal.Status < 400 || refusal.Status > 599 {
		refusal = *door.Refuse("unavailable")
	}
	if answer := l.links[refuse.ID]; answer != nil {
		delete(l.links, refuse.ID)
		l.refused.add(leaseKey{answer.question.Place, answer.question.Credential}, &refusal, time.Now())
		answer.refuse(&refusal)
		return
	}
	lease := l.asked[refuse.ID]
	if lease == nil {
		return
	}
	l.refused.add(leaseKey{lease.question.Place, lease.question.Credential}, &refusal, time.Now())
	l.cutAll(lease, &refusal)
}

func cutMessage(reason string) string {
	if message, known := cutMessages[reason]; known {
		return message
	}
	return "The workspace cannot be reached at this moment."
}

var cutMessages = map[string]string{
	"credential_revoked": "This credential was revoked.",
	"credential_expired": "This credential has expired.",
	"port_closed":        "This port is not exposed any more.",
	"workspace_gone":     "This workspace is deleted.",
}

func (l *Link) receiveCut(cut *cutFrame) {
	lease := l.granted[cut.Lease]
	if lease == nil {
		return
	}
	l.count(lease, time.Now())
	refusal := moved()
	if cut.Reason != Moved && cut.Status >= 400 && cut.Status <= 599 {
		refusal = &cut.Refusal
	}
	if refusal.Message == "" {
		refusal.Message = cutMessage(cut.Reason)
	}
	if cut.Reason != "credential_revoked" && cut.Reason != "credential_expired" {
		l.gone(lease.target)
	}
	l.cutAll(lease, refusal)
}

type Redirect struct {
	Path          string
	Cookie        string
	MaxAgeSeconds int
}

type linkAnswer struct {
	question Question
	redirect *Redirect
	refusal  *door.Refusal
	done     chan struct{}
}

func (a *linkAnswer) refuse(refusal *door.Refusal) {
	a.refusal = refusal
	close(a.done)
}

func (l *Link) Follow(ctx context.Context, question Question, visitor Visitor) (*Redirect, *door.Refusal) {
	if refusal := visitor.Unproven(); refusal != nil {
		return nil, refusal
	}
	if !l.awaitSession(ctx) {
		return nil, door.Refuse("unavailable")
	}
	id, answer, refusal := l.askForLink(question)
	if refusal != nil {
		return nil, refusal
	}
	select {
	case <-answer.done:
		return answer.redirect, answer.refusal
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.links, id)
	l.send(sent{Abort: &abortFrame{id}})
	return nil, door.Refuse("unavailable")
}

func (l *Link) askForLink(question Question) (uint64, *linkAnswer, *door.Refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key, now := leaseKey{question.Place, question.Credential}, time.Now()
	if refusal := l.refused.find(key, now); refusal != nil {
		return 0, nil, refusal
	}
	if l.session == nil {
		return 0, nil, door.Refuse("unavailable")
	}
	if !l.budgets.take(question, key, now) {
		return 0, nil, door.Refuse("too_many_requests")
	}
	l.lastID++
	answer := &linkAnswer{question: question, done: make(chan struct{})}
	l.links[l.lastID] = answer
	l.send(sent{Ask: askOf(l.lastID, question)})
	return l.lastID, answer, nil
}

func (l *Link) receiveRedirect(redirect *redirectFrame) {
	answer := l.links[redirect.ID]
	if answer == nil {
		return
	}
	delete(l.links, redirect.ID)
	l.budgets.good.remember(leaseKey{answer.question.Place, answer.question.Credential})
	answer.redirect = &Redirect{redirect.Path, redirect.Cookie, redirect.MaxAgeSeconds}
	close(answer.done)
}
