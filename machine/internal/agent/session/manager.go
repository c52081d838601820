// Package session runs commands, each id once. All state is in the state directory, outside of the guest's tree, and
// survives the agent, a suspend and a fork.
package session

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/agent/output"
	"github.com/berth-dev/berth/machine/internal/agent/reap"
	"github.com/berth-dev/berth/machine/internal/agent/record"
	"github.com/berth-dev/berth/machine/internal/agent/spawn"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	runningMax = 1000  // commands at once
	cachedMax  = 64    // ended sessions with a record in memory
	sessionMax = 10000 // ended sessions with a record on disk; ids of older ones can run again

	outputBytesDefault = 256 << 20
)

type Guest interface {
	User(name string) (guestroot.User, bool, error)
	Start(*spawn.Command) (spawn.Started, error)
}

type Manager struct {
	dir          string
	guest        Guest
	reaper       *reap.Reaper
	pump         *pump
	spare        chan *pipes // ready-made pipes of the next command
	late         time.Duration
	queues       output.Queues
	keep         *output.Store
	processesMax atomic.Uint64
	processes    sync.Map // *Session -> pid of its leader, while it runs
	lastEnded    atomic.Pointer[string]
	recordsMax   int
	begins       startTimes
	indexed      chan struct{} // closed when earlier boots' commands are registered
	learning     sync.Mutex

	mu      sync.Mutex
	known   map[string]*Session // running and recently ended sessions
	cached  []string            // ids of ended sessions in known, oldest first
	running int
}

var buffers = sync.Pool{New: func() any { return new([output.QueueBytesMax]byte) }}

// Open reads earlier sessions in the background, so that a claim does not wait.
func Open(dir string, guest Guest, reaper *reap.Reaper, limits wire.GuestLimits) (*Manager, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	pump, err := newPump()
	if err != nil {
		return nil, err
	}
	m := &Manager{dir: dir, guest: guest, reaper: reaper, pump: pump, spare: make(chan *pipes, 1), late: lateSeconds * time.Second,
		known: map[string]*Session{}, keep: output.NewKeeper(outputBytesDefault, cachedMax),
		recordsMax: sessionMax, begins: startTimes{at: map[string]int64{}}, indexed: make(chan struct{})}
	m.SetLimits(limits)
	go m.index()
	return m, nil
}

func (m *Manager) SetLimits(limits wire.GuestLimits) {
	m.processesMax.Store(uint64(max(limits.Processes, 0)))
	if limits.OutputBytes > 0 {
		m.keep.SetLimit(limits.OutputBytes)
	}
}

// Start returns a new session, or the existing one with this id; created says which.
func (m *Manager) Start(req wire.ExecRequest) (s *Session, created bool, err error) {
	c, err := check(req)
	if err != nil {
		return nil, false, err
	}
	s, mine, err := m.take(c.SessionID)
	if err != nil {
		return nil, false, err
	}
	if mine {
		s.fingerprint = c.Fingerprint
		err := m.start(s, c)
		if errors.Is(err, fs.ErrExist) {
			err, mine = s.load(c.SessionID), false
			if err == nil {
				m.release(s)
			}
		}
		if err != nil {
			m.drop(s, c.SessionID)
		}
		s.startErr = err
		close(s.ready)
	}
	<-s.ready
	if s.startErr != nil {
		return nil, false, s.startErr
	}
	if !mine && s.fingerprint != "" && s.fingerprint != c.Fingerprint {
		return nil, false, fail.Conflict("operation_id_reused", "The session_id was used for a different request")
	}
	return s, mine, nil
}

func (m *Manager) take(id string) (s *Session, mine bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.known[id]; s != nil {
		return s, false, nil
	}
	if m.running >= runningMax {
		return nil, false, fail.RateLimited("too_many_sessions", "Too many commands are running")
	}
	s = &Session{dir: filepath.Join(m.dir, dirName(id)), ready: make(chan struct{})}
	m.known[id] = s
	m.running++
	return s, true, nil
}

func (m *Manager) drop(s *Session, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, id)
	m.running--
}

func (m *Manager) release(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
	m.remember(s)
}

func (m *Manager) remember(s *Session) {
	m.cached = append(m.cached, s.record.SessionID)
	if len(m.cached) > cachedMax {
		delete(m.known, m.cached[0])
		m.cached = m.cached[1:]
	}
}

// leaderLeft runs on the reaper's goroutine, for which all other exits wait. So slow work goes to a new goroutine,
// which Gosched starts at once on this thread.
func (m *Manager) leaderLeft(s *Session, pid int, status unix.WaitStatus) {
	m.lastEnded.Store(s.leaderLeft(pid))
	m.processes.Delete(s)
	go func() {
		buffer := buffers.Get().(*[output.QueueBytesMax]byte)
		late := s.finished(status, buffer[:])
		buffers.Put(buffer)
		m.release(s)
		m.registerWhenClosed(s, late)
	}()
	runtime.Gosched()
}

func (m *Manager) registerEnded(s *Session) {
	m.keep.Ended(s.dir, s.stdout, s.stderr)
	for _, dir := range m.keep.Beyond(m.recordsMax) {
		// The record is deleted last, because the next boot finds an unfinished deletion by its record.
		_ = os.RemoveAll(dir)
		_ = os.Remove(dir + recordSuffix)
		m.begins.forget(dir)
	}
}

func (m *Manager) Get(id string) (*Session, error) {
	m.mu.Lock()
	s := m.known[id]
	m.mu.Unlock()
	if s != nil {
		<-s.ready
		return s, s.startErr
	}
	s = &Session{dir: filepath.Join(m.dir, dirName(id))}
	if _, err := os.Lstat(s.dir + recordSuffix); !sessionIDPattern.MatchString(id) || err != nil {
		return nil, fail.NotFound("session_not_found", "There is no such session")
	}
	return s, s.load(id)
}

func (s *Session) load(id string) error {
	e, err := readRecord(s.dir, id)
	if err != nil {
		return err
	}
	s.fingerprint, s.record = e.Fingerprint, e.Record
	if s.stdout, err = output.LoadStream(s.dir, "stdout", e.Record.StdoutBytes); err != nil {
		return err
	}
	s.stderr, err = output.LoadStream(s.dir, "stderr", e.Record.StderrBytes)
	return err
}

// Cancel sends SIGTERM to the process group, and SIGKILL after the grace.
func (m *Manager) Cancel(s *Session) {
	if pid, ok := m.processes.Load(s); ok {
		s.end(pid.(int), false)
	}
}

// Signal sends a signal to the command's whole process group.
func (m *Manager) Signal(s *Session, name string) error {
	number := unix.SignalNum(name)
	if number == 0 {
		return fail.Invalid("invalid_signal", "Signals are named as SIGTERM")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pid, ok := m.processes.Load(s)
	if !ok || s.record.State != record.Running {
		return fail.Conflict("session_ended", "The command has ended")
	}
	if err := unix.Kill(-pid.(int), number); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}
