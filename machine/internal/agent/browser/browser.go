// Package browser runs one headless Chromium as the guest's user.
package browser

import (
	"context"
	"errors"
	"log"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/agent/helper"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	// A browser's memory grows with every page, so a browser is replaced after pagesMax pages.
	pagesMax   = 200
	atOnceMax  = 4
	waitingMax = 32
	idleMax    = 10 * time.Minute
	timeoutMax = 2 * time.Minute
	openMax    = 20 * time.Second
)

type Guest interface {
	Root() (*guestroot.Root, error)
}

// Browser manages the one browser process.
type Browser struct {
	guest  Guest
	runner *helper.Runner
	slots  chan struct{}
	queue  chan struct{}

	mu      sync.Mutex
	current *running
}

func New(guest Guest, runner *helper.Runner) *Browser {
	return &Browser{guest: guest, runner: runner, slots: make(chan struct{}, atOnceMax), queue: make(chan struct{}, waitingMax)}
}

func (b *Browser) Screenshot(ctx context.Context, user string, req wire.BrowserRequest) ([]byte, error) {
	return b.show(ctx, user, req, func(ctx context.Context, p *page) ([]byte, error) { return p.screenshot(ctx, req) })
}

func (b *Browser) Content(ctx context.Context, user string, req wire.BrowserRequest) ([]byte, error) {
	return b.show(ctx, user, req, func(ctx context.Context, p *page) ([]byte, error) { return p.content(ctx, req.Format) })
}

type reading func(context.Context, *page) ([]byte, error)

func (b *Browser) show(ctx context.Context, user string, req wire.BrowserRequest, read reading) ([]byte, error) {
	if err := check(req); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(req.TimeoutMS)*time.Millisecond)
	defer cancel()
	release, err := b.admit(ctx)
	if err != nil {
		return nil, explain(err)
	}
	defer release()
	p, r, err := b.page(ctx, user, req)
	if err != nil {
		return nil, explain(err)
	}
	defer b.release(r)
	defer p.close()
	if err = p.visit(ctx, req); err != nil {
		return nil, explain(err)
	}
	bytes, err := read(ctx, p)
	if err == nil && len(bytes) > wire.BrowserBytesMax {
		err = errTooLarge
	}
	return bytes, explain(err)
}

func check(req wire.BrowserRequest) error {
	scheme, _, _ := strings.Cut(strings.ToLower(req.URL), ":")
	if scheme != "http" && scheme != "https" {
		return fail.Invalid("", "Only http and https URLs are visited")
	}
	_, known := expressions[req.Format]
	if lifecycle[req.WaitUntil] == "" || req.Format != "" && !known || req.Width < 1 || req.Height < 1 || req.Width > 8192 || req.Height > 8192 ||
		req.WaitMS < 0 || req.TimeoutMS < 1 || req.TimeoutMS > timeoutMax.Milliseconds() {
		return fail.Invalid("", "The request is not valid")
	}
	return nil
}

func (b *Browser) admit(ctx context.Context) (release func(), err error) {
	select {
	case b.queue <- struct{}{}:
		defer func() { <-b.queue }()
	default:
		return nil, fail.RateLimited("too_many_sessions", "Too many pages are asked for at once")
	}
	select {
	case b.slots <- struct{}{}:
		return func() { <-b.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// page replaces a dead or hung browser once, for example after a suspend. The retry is safe, because no URL has been
// visited yet.
func (b *Browser) page(ctx context.Context, user string, req wire.BrowserRequest) (*page, *running, error) {
	for attempt := 0; ; attempt++ {
		r, err := b.acquire(user, req.Env)
		if err != nil {
			return nil, nil, err
		}
		opening, cancel := context.WithTimeout(ctx, openMax)
		p, err := r.sized(opening, req)
		cancel()
		if err == nil {
			return p, r, nil
		}
		if ctx.Err() == nil {
			b.discard(r, err)
		}
		b.release(r)
		if attempt > 0 || ctx.Err() != nil {
			return nil, nil, err
		}
	}
}

func (b *Browser) acquire(user string, env map[string]string) (*running, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.current; r != nil && r.alive() && r.pages < pagesMax {
		r.pages++
		r.open++
		r.idle.Stop()
		return r, nil
	}
	b.retire()
	r, err := b.start(user, env)
	if err != nil {
		return nil, err
	}
	r.pages, r.open = 1, 1
	r.idle = time.AfterFunc(idleMax, func() { b.stopIdle(r) })
	r.idle.Stop()
	b.current = r
	return r, nil
}

func (b *Browser) retire() {
	r := b.current
	b.current = nil
	if r == nil {
		return
	}
	r.retired = true
	if r.open == 0 || !r.alive() {
		go r.stop(errClosed)
	}
}

func (b *Browser) release(r *running) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.open--
	if !r.retired && r.pages < pagesMax {
		go r.refill()
	}
	if r.open > 0 {
		return
	}
	if r.retired {
		go r.stop(errClosed)
	} else {
		r.idle.Reset(idleMax)
	}
}

func (b *Browser) stopIdle(r *running) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == r && r.open == 0 {
		b.retire()
	}
}

func (b *Browser) discard(r *running, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	log.Printf("the browser is replaced: %v", why)
	if b.current == r {
		b.current = nil
	}
	r.retired = true
	go r.stop(why)
}

func explain(err error) error {
	var known *fail.Error
	var refused refusedError
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fail.Timeout("The page was not ready in time")
	case errors.Is(err, errTooLarge):
		return fail.TooLarge("The page is too large", wire.BrowserBytesMax)
	case errors.As(err, &refused):
		return fail.Conflict("browser_failed", "The browser could not show the page").With("error", firstWords(string(refused)))
	case errors.Is(err, context.Canceled):
		return err
	}
	return fail.Conflict("browser_failed", "The browser ended, or was ended for want of memory").With("error", firstWords(err.Error()))
}
