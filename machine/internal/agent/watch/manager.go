// Package watch tells what changes in a directory of the guest. Events are numbered: whoever lost its connection goes on where it was,
// or is told that it has missed some.
package watch

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/files"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	watchesMax = 64
	// kept is how long a watch that nobody reads goes on.
	kept = 10 * time.Minute
	// heartbeatEvery is how long a reader hears nothing at most.
	heartbeatEvery = 15 * time.Second
)

// Manager has the watches of one guest.
type Manager struct {
	mu      sync.Mutex
	watches map[string]*watch
}

// Request is what a reader asks for. ID is empty for a new watch; Offset is that of the last event that the reader has seen.
type Request struct {
	Path      string
	Recursive bool
	ID        string
	Offset    int64
}

// Reader reads the events of a watch.
type Reader struct {
	manager *Manager
	watch   *watch
	offset  int64
	missed  bool
}

// Open goes on with a watch, or begins one. The reader is to be closed.
func (m *Manager) Open(rooted Rooted, req Request) (*Reader, error) {
	if err := files.CheckPath(req.Path); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.watches[req.ID]; w != nil && w.events.isOver(req.Offset) {
		m.drop(w) // there may be another directory of the name
	}
	if w := m.watches[req.ID]; w != nil && w.path == strings.TrimRight(req.Path, "/") && w.recursive == req.Recursive {
		m.use(w)
		if w.events.has(req.Offset) {
			return &Reader{manager: m, watch: w, offset: req.Offset}, nil
		}
		_, first, _ := w.events.from(0)
		return &Reader{manager: m, watch: w, offset: first, missed: true}, nil
	}
	if !m.hasPlace() {
		return nil, fail.RateLimited("resource_limit", "Too many directories are watched")
	}
	w, err := begin(rooted, rand.Text(), req.Path, req.Recursive)
	if err != nil {
		return nil, err
	}
	if m.watches == nil {
		m.watches = map[string]*watch{}
	}
	m.watches[w.id] = w
	m.use(w)
	return &Reader{manager: m, watch: w, missed: req.ID != ""}, nil
}

// hasPlace gives up a watch that nobody reads where there are too many.
func (m *Manager) hasPlace() bool {
	if len(m.watches) < watchesMax {
		return true
	}
	for _, w := range m.watches {
		if w.readers == 0 {
			m.drop(w)
			return true
		}
	}
	return false
}

func (m *Manager) use(w *watch) {
	w.readers++
	if w.idle != nil {
		w.idle.Stop()
		w.idle = nil
	}
}

func (m *Manager) drop(w *watch) {
	delete(m.watches, w.id)
	w.close()
}

// Close leaves the watch to whoever comes back to it in time.
func (r *Reader) Close() {
	m, w := r.manager, r.watch
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.readers--; w.readers > 0 {
		return
	}
	w.idle = time.AfterFunc(kept, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if w.readers == 0 && m.watches[w.id] == w {
			m.drop(w)
		}
	})
}

// Run sends one event a line, until the watch ends or the reader has gone. What it has missed it is told first.
func (r *Reader) Run(ctx context.Context, send func([]byte) error, flush func() error) error {
	w := r.watch
	if err := send(encode(wire.WatchEvent{Type: wire.WatchStart, WatchID: w.id, Offset: &r.offset, Missed: &r.missed})); err != nil {
		return err
	}
	beat := time.NewTicker(heartbeatEvery)
	defer beat.Stop()
	for {
		// In this order, or an event could slip between the look and the wait.
		changed := w.events.notice.Next()
		ended, err := r.sendNew(send)
		if err != nil || ended {
			return err
		}
		if err := flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-beat.C:
			if err := send(encode(wire.WatchEvent{Type: wire.WatchHeartbeat})); err != nil {
				return err
			}
		}
	}
}

func (r *Reader) sendNew(send func([]byte) error) (ended bool, err error) {
	lines, from, ended := r.watch.events.from(r.offset)
	if from > r.offset {
		// It reads more slowly than they come.
		if err := send(encode(wire.WatchEvent{Type: wire.WatchOverflow, Offset: &from, Why: wire.WatchEvents})); err != nil {
			return false, err
		}
	}
	for _, line := range lines {
		if err := send(line); err != nil {
			return false, err
		}
	}
	r.offset = from + int64(len(lines))
	return ended, nil
}
