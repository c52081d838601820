package proxy

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/berth-dev/berth/machine/internal/ports/door"
	"github.com/berth-dev/berth/machine/internal/ports/httpwire"
	"github.com/berth-dev/berth/machine/internal/ports/question"
)

type exchange struct {
	server  *Server
	request *httpwire.Request
	visitor visitor
	place   door.Place
	public  door.Public
	group   netip.Addr
	counts  counts

	credential door.Credential
	target     string
	use        *question.Use
	upstream   *upstream
	sent       bool        // some bytes went to the app
	bodyHere   atomic.Bool // the whole body has arrived
	sending    *sending    // the transfer of the body; nil if none is running

	mu         sync.Mutex
	cancel     context.CancelFunc
	held       *upstream // the connection that Cut closes
	cutBy      *door.Refusal
	over       bool
	headIsHere bool
	frames     *frames // frames of a WebSocket, sent to the visitor
	unwatch    func()
}

type counts uint8

const (
	uncounted counts = iota
	amongStrangers
	ofWorkspace
)

// Unproven counts the request for its client, not for the workspace. So a request with an invalid credential uses no
// capacity of the workspace that it names.
func (e *exchange) Unproven() *door.Refusal {
	if e.counts != uncounted {
		return nil
	}
	bounds := e.server.options.Bounds
	if !e.server.strangers.enter(e.group, e, bounds.RequestsOfAClient, bounds.RequestsUnproven) {
		return door.Refuse("too_many_requests")
	}
	e.counts = amongStrangers
	return nil
}

func (e *exchange) Proven() *door.Refusal {
	if e.counts == ofWorkspace {
		return nil
	}
	e.leavePlace()
	bounds := e.server.options.Bounds
	if !e.server.workspaces.enter(e.place.HostID, e, bounds.RequestsOfAWorkspace, bounds.Requests) {
		return door.Refuse("too_many_requests")
	}
	e.counts = ofWorkspace
	return nil
}

func (e *exchange) leavePlace() {
	switch e.counts {
	case amongStrangers:
		e.server.strangers.leave(e.group, e)
	case ofWorkspace:
		e.server.workspaces.leave(e.place.HostID, e)
	}
	e.counts = uncounted
}

func (e *exchange) run(ctx context.Context) *door.Refusal {
	e.bodyHere.Store(e.request.Framing.Kind == httpwire.NoBody)
	shown, refusal := door.Show(e.request, cookieName(e.public))
	if refusal != nil {
		return refusal
	}
	if shown.Credentials[0].Kind == door.Link {
		return e.followLink(ctx, shown.Credentials[0])
	}
	if shown.Credentials[0].Kind == door.Cookie {
		if refusal := e.server.options.Names.CheckOrigin(e.request, e.place, e.public); refusal != nil {
			return refusal
		}
	}
	defer e.finish()
	e.watch()
	return e.attempts(ctx, shown)
}

// attempts repeats an attempt after the machine moved, as long as the app received nothing.
func (e *exchange) attempts(ctx context.Context, shown door.Shown) *door.Refusal {
	ctx, cancel := context.WithTimeout(ctx, e.server.options.Times.Start)
	defer cancel()
	for {
		refusal := e.attempt(ctx, shown)
		if refusal == nil || refusal.Reason != question.Moved {
			return refusal
		}
		if e.sent || ctx.Err() != nil {
			return refusal
		}
		e.mu.Lock()
		e.cutBy, e.held = nil, nil
		e.mu.Unlock()
	}
}

func cookieName(public door.Public) string {
	if public.Scheme == "https" {
		return door.CookieName
	}
	return door.PlainCookieName
}

func (e *exchange) attempt(ctx context.Context, shown door.Shown) *door.Refusal {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.mu.Lock()
	e.cancel = cancel
	e.mu.Unlock()
	if refusal := e.acquire(ctx, shown); refusal != nil {
		return e.cutOr(refusal)
	}
	defer e.use.End()
	e.target = door.TargetForApp(shown.Target, e.credential)
	return e.forward(ctx)
}

func (e *exchange) acquire(ctx context.Context, shown door.Shown) (refusal *door.Refusal) {
	for _, credential := range e.server.options.Link.Likely(e.place, shown.Credentials) {
		e.credential = credential
		e.use, refusal = e.server.options.Link.Acquire(ctx, e.question(credential), e)
		if refusal == nil || refusal.Status != http.StatusUnauthorized {
			break
		}
	}
	return refusal
}

func (e *exchange) question(credential door.Credential) question.Question {
	return question.Question{
		Place: e.place, Credential: credential, WebSocket: e.request.Upgrade != "", Method: e.request.Method, Client: e.public.Client,
	}
}

// Cut ends the exchange. It is called when the lease is cut, the service ends, or fair ends this exchange for another.
func (e *exchange) Cut(refusal *door.Refusal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.cutBy = refusal
		e.stop()
	}
}

func (e *exchange) abandon() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.stop()
	}
}

func (e *exchange) stop() {
	if e.cancel != nil {
		e.cancel()
	}
	if e.held != nil {
		e.held.Close()
	}
	if e.visitor.started() {
		e.visitor.kill()
	}
}

func (e *exchange) finish() {
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
	e.finishWatching()
}

// watch notices that the visitor has gone. It requires a complete request, because it reads from the connection.
func (e *exchange) watch() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over && e.unwatch == nil && e.bodyHere.Load() {
		e.unwatch = e.visitor.watch(e.abandon)
	}
}

// hold makes u the connection that Cut closes. If Cut came before, it closes u itself.
func (e *exchange) hold(u *upstream) *door.Refusal {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cutBy != nil {
		u.Close()
		return e.cutBy
	}
	e.upstream, e.held, e.headIsHere = u, u, false
	return nil
}

func (e *exchange) release() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = nil
	return e.cutBy == nil
}

func (e *exchange) cutOr(refusal *door.Refusal) *door.Refusal {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cutBy != nil {
		return e.cutBy
	}
	return refusal
}

func (e *exchange) closes() bool {
	return e.request.Close || !e.bodyHere.Load() || e.server.draining.Load()
}
