// Package watch reports changes in a directory of the guest. Numbered events let a reader resume, or learn that it
// missed some.
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
	// How long a watch without readers continues.
	kept           = 10 * time.Minute
	heartbeatEvery = 15 * time.Second
)

type Manager struct {
	mu      sync.Mutex
	watches map[string]*watch
}

// Request resumes the watch with ID after the last event received, whose offset is Offset. Without an ID it begins a
// watch.
type Request struct {
	Path      string
	Recursive bool
	ID        string
	Offset    int64
}

type Reader struct {
	manager *Manager
	watch   *watch
	offset  int64
	missed  bool
}

// Open resumes or begins a watch. The caller closes the reader.
func (m *Manager) Open(rooted Rooted, req Request) (*Reader, error) {
	if err := files.CheckPath(req.Path); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.watches[req.ID]; w != nil && w.events.isOver(req.Offset) {
		m.drop(w) // ended: the path may exist again, so begin a new watch
	}
	if w := m.watches[req.ID]; w != nil && w.path == strings.TrimRight(req.Path, "/") && w.recursive == req.Recursive {
		m.use(w)
		if w.events.has(req.Offset) {
			return &Reader{manager: m, watch: w, offset: req.Offset}, nil
		}
		_, first, _ := w.events.from(0)
		return &Reader{manager: m, watch: w, offset: first, missed: true}, nil
	}
	if !m.hasCapacity() {
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

func (m *Manager) hasCapacity() bool {
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

// Close ends the reader. The watch continues for a while, so that a reader can resume.
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

// Run sends a line per event until the watch ends.
func (r *Reader) Run(ctx context.Context, send func([]byte) error, flush func() error) error {
	w := r.watch
	if err := send(encode(wire.WatchEvent{Type: wire.WatchStart, WatchID: w.id, Offset: &r.offset, Missed: &r.missed})); err != nil {
		return err
	}
	beat := time.NewTicker(heartbeatEvery)
	defer beat.Stop()
	for {
		// Next is called before the read, as Notice requires.
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
		// The reader is too slow and has missed events.
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
