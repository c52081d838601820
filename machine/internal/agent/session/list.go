package session

import (
	"path/filepath"
	"sync"

	"github.com/berth-dev/berth/machine/internal/agent/listing"
	"github.com/berth-dev/berth/machine/internal/agent/record"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// startTimes has the start of each command. Earlier records are read at the first list, so that a claim does not
// wait.
type startTimes struct {
	mu sync.Mutex
	at map[string]int64 // by directory, in Unix milliseconds; unread: of an earlier boot, not read yet
}

const unread = -1

func (b *startTimes) began(dir string, at int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at[dir] = at
}

func (b *startTimes) earlier(dirs []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, dir := range dirs {
		if _, known := b.at[dir]; !known {
			b.at[dir] = unread
		}
	}
}

func (b *startTimes) forget(dir string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.at, dir)
}

func (b *startTimes) unread() (dirs []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for dir, at := range b.at {
		if at == unread {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func (b *startTimes) places() []listing.Position {
	b.mu.Lock()
	defer b.mu.Unlock()
	places := make([]listing.Position, 0, len(b.at))
	for dir, at := range b.at {
		if at != unread {
			places = append(places, listing.Position{At: at, Name: filepath.Base(dir)})
		}
	}
	return places
}

func (m *Manager) List(q listing.Query) wire.ExecList {
	known := m.startedSessions()
	places := m.placesFor(q, known)
	rows, next := listing.Page(q, places, func(place listing.Position) (wire.ExecListed, bool) {
		r, ok := m.recordAt(known, filepath.Join(m.dir, place.Name))
		if !ok || !q.Matches(r.State) {
			return wire.ExecListed{}, false
		}
		return listed(r), true
	})
	return wire.ExecList{Commands: rows, NextCursor: next}
}

func (m *Manager) placesFor(q listing.Query, known map[string]*Session) []listing.Position {
	if q.State != listing.Running {
		m.learnBegins()
		return m.begins.places()
	}
	var places []listing.Position
	for dir, s := range known {
		if s.running() {
			r := s.Record()
			places = append(places, listing.Position{At: listing.At(r.StartedAt, r.EndedAt), Name: filepath.Base(dir)})
		}
	}
	return places
}

// learnBegins reads the start times of earlier records. A partly written record has no id and is not listed.
func (m *Manager) learnBegins() {
	<-m.indexed
	m.learning.Lock() // one list reads, others wait
	defer m.learning.Unlock()
	for _, dir := range m.begins.unread() {
		e, err := readRecord(dir, "")
		if at := listing.At(e.Record.StartedAt, e.Record.EndedAt); err == nil && e.Record.SessionID != "" && at > 0 {
			m.begins.began(dir, at)
		} else {
			m.begins.forget(dir)
		}
	}
}

func (m *Manager) startedSessions() map[string]*Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	decided := make(map[string]*Session, len(m.known))
	for _, s := range m.known {
		select {
		case <-s.ready:
			if s.startErr == nil {
				decided[s.dir] = s
			}
		default:
		}
	}
	return decided
}

func (m *Manager) recordAt(known map[string]*Session, dir string) (r wire.ExecRecord, ok bool) {
	if s := known[dir]; s != nil {
		return s.Record(), true
	}
	e, err := readRecord(dir, "")
	return e.Record, err == nil && e.Record.SessionID != "" && e.Record.State != record.Running
}

func listed(r wire.ExecRecord) wire.ExecListed {
	argv, isCut := listing.CutArgv(r.Argv)
	return wire.ExecListed{SessionID: r.SessionID, Argv: argv, ArgvTruncated: isCut, Cwd: r.Cwd, User: r.User, State: r.State, PID: r.PID,
		ExitCode: r.ExitCode, TermSignal: r.TermSignal, TimedOut: r.TimedOut, Reason: r.Reason, StartedAt: r.StartedAt, EndedAt: r.EndedAt,
		Error: listing.CutError(r.Error), StdoutBytes: r.StdoutBytes, StderrBytes: r.StderrBytes, Stdin: r.Stdin}
}
