package secretproxy

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// Requests that last long, such as WebSockets, streams, downloads and uploads, are checked at this interval.
const ongoingEvery = 5 * time.Second

type ongoing struct {
	mu       sync.Mutex
	requests map[*lasting]struct{}
}

// lasting is a request that carries values. It is ended when a secret is no longer bound to the workspace, but not when
// the value is rotated.
type lasting struct {
	of   wire.SecretsOf
	name string
	port int
	put  []string // identities of the secrets whose values it carries
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

// endUnbound ends nothing without an answer, because a restart of the cell must end no stream.
func (p *Proxy) endUnbound(ctx context.Context) {
	var asked sync.WaitGroup
	for of, requests := range p.ongoing.byMachine() {
		asked.Go(func() { // loadTogether limits the requests, and so these goroutines
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

// identities name secrets independently of their values. A rotated secret has the same identity; a later one of the
// same name has another.
func identities(secrets []placed) (list []string) {
	for _, one := range secrets {
		list = append(list, one.secret.Name+"\x00"+one.secret.Placeholder)
	}
	return list
}

func usedIn(header http.Header, query string, secrets []placed) (used []placed) {
	plain := sizeOf(header, query)
	for _, one := range secrets {
		if sizeWith(header, query, []placed{one}) > plain {
			used = append(used, one)
		}
	}
	return used
}

func (p *Proxy) begins(r *http.Request, f *flow, secrets []placed) (ctx context.Context, over func()) {
	ctx, cancel := context.WithCancel(r.Context())
	used := usedIn(r.Header, r.URL.RawQuery, secrets)
	if len(used) == 0 {
		return ctx, cancel
	}
	end := cancel
	if r.ProtoMajor < 2 {
		end = func() { abortFlow(f) } // a machine that does not read its answer would not notice the context's end
	}
	forget := p.ongoing.add(&lasting{of: f.of, name: f.name, port: int(f.to.Port()), put: identities(used), end: end})
	return ctx, func() {
		forget()
		cancel()
	}
}
