package secretproxy

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// ongoingEvery is how often it is looked whether requests that last may last on: WebSockets, streams, long downloads and uploads.
const ongoingEvery = 5 * time.Second

// ongoing are the requests with a value in them that have not ended.
type ongoing struct {
	mu       sync.Mutex
	requests map[*lasting]struct{}
}

// lasting is one of them. It ends when a binding ends that it began with. A rotation ends no binding.
type lasting struct {
	of   wire.SecretsOf
	name string
	port int
	put  []string // which secrets
	end  func()
}

func (o *ongoing) add(one *lasting) (over func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests[one] = struct{}{}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.requests, one)
	}
}

func (o *ongoing) byMachine() map[wire.SecretsOf][]*lasting {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := map[wire.SecretsOf][]*lasting{}
	for one := range o.requests {
		found[one.of] = append(found[one.of], one)
	}
	return found
}

func (p *Proxy) watchOngoing(ctx context.Context) {
	ticks := time.NewTicker(p.ongoingEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			p.endUnbound(ctx)
		}
	}
}

// endUnbound leaves requests alone of which the cell says nothing: a cell that restarts ends no stream.
func (p *Proxy) endUnbound(ctx context.Context) {
	var asked sync.WaitGroup
	for of, requests := range p.ongoing.byMachine() {
		asked.Go(func() { // as many at most as there are requests: loadTogether
			said, err := p.answers.of(ctx, of)
			if err != nil {
				return
			}
			for _, one := range requests {
				bound := identities(said.placedAt(one.name, one.port))
				if slices.ContainsFunc(one.put, func(secret string) bool { return !slices.Contains(bound, secret) }) {
					one.end()
				}
			}
		})
	}
	asked.Wait()
}

// identities tell secrets apart, also one from a later one of its name. A rotation changes neither.
func identities(secrets []placed) (list []string) {
	for _, one := range secrets {
		list = append(list, one.secret.Name+"\x00"+one.secret.Placeholder)
	}
	return list
}

// usedIn are the secrets of which putIn puts a value into this head.
func usedIn(header http.Header, query string, secrets []placed) (used []placed) {
	for _, one := range secrets {
		if sizeAt(one) > 0 || sizeWith(header, query, []placed{one}) > sizeOf(header, query) {
			used = append(used, one)
		}
	}
	return used
}

// begins keeps a request in sight until it is over.
func (p *Proxy) begins(r *http.Request, f *flow, secrets []placed) (ctx context.Context, over func()) {
	ctx, cancel := context.WithCancel(r.Context())
	end := cancel
	if r.ProtoMajor < 2 {
		end = func() { abortFlow(f) } // also where the machine reads nothing of its answer
	}
	used := usedIn(r.Header, r.URL.RawQuery, secrets)
	if len(used) == 0 {
		return ctx, cancel
	}
	forget := p.ongoing.add(&lasting{of: f.of, name: f.name, port: int(f.to.Port()), put: identities(used), end: end})
	return ctx, func() {
		forget()
		cancel()
	}
}
