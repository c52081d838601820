package pty

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/agent/output"
	"github.com/berth-dev/berth/machine/internal/agent/reap"
	"github.com/berth-dev/berth/machine/internal/agent/record"
	"github.com/berth-dev/berth/machine/internal/agent/session"
	"github.com/berth-dev/berth/machine/internal/agent/spawn"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	runningMax = 100  // terminals at once
	keptMax    = 1000 // records kept; the ids of older ended terminals become usable again
)

type Manager struct {
	dir          string
	guest        session.Guest
	reaper       *reap.Reaper
	keep         *output.Store
	index        sync.Once
	processesMax uint64

	mu        sync.Mutex
	terminals map[string]*Terminal
	order     []string // ids, oldest first
	running   int
}

// Open does not load earlier terminals, so that a claim does not wait. The first call loads them.
func Open(dir string, guest session.Guest, reaper *reap.Reaper, limits wire.GuestLimits) *Manager {
	m := &Manager{dir: dir, guest: guest, reaper: reaper, terminals: map[string]*Terminal{}, keep: output.NewKeeper(outputBytesDefault, keptMax)}
	m.SetLimits(limits)
	return m
}

func (m *Manager) SetLimits(limits wire.GuestLimits) {
	m.mu.Lock()
	m.processesMax = uint64(max(limits.Processes, 0))
	m.mu.Unlock()
	if limits.OutputBytes <= 0 {
		limits.OutputBytes = outputBytesDefault
	}
	m.keep.SetLimit(limits.OutputBytes)
}

// Start returns a new terminal, or the existing one with this id; created says which.
func (m *Manager) Start(req wire.PtyRequest) (t *Terminal, created bool, err error) {
	m.index.Do(m.load)
	command, err := check(req)
	if err != nil {
		return nil, false, err
	}
	t, mine, err := m.take(req.SessionID)
	if err != nil {
		return nil, false, err
	}
	if mine {
		t.fingerprint = req.Fingerprint
		if t.startErr = m.start(t, req, command); t.startErr != nil {
			m.drop(req.SessionID)
		}
		close(t.ready)
	}
	<-t.ready
	if t.startErr != nil {
		return nil, false, t.startErr
	}
	if !mine && t.fingerprint != req.Fingerprint {
		return nil, false, fail.Conflict("operation_id_reused", "The session_id was used for a different request")
	}
	return t, mine, nil
}

// Without argv, check uses /bin/sh as a placeholder for the login shell.
func check(req wire.PtyRequest) (wire.ExecRequest, error) {
	argv := req.Argv
	if len(argv) == 0 {
		argv = []string{"/bin/sh"}
	}
	command, err := session.Check(wire.ExecRequest{SessionID: req.SessionID, Argv: argv, Cwd: req.Cwd, User: req.User, Env: req.Env})
	if err == nil && (req.Cols == 0 || req.Rows == 0) {
		err = fail.Invalid("invalid_size", "A terminal has at least one column and one row")
	}
	return command, err
}

func (m *Manager) take(id string) (t *Terminal, mine bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.terminals[id]; t != nil {
		return t, false, nil
	}
	if m.running >= runningMax {
		return nil, false, fail.RateLimited("too_many_sessions", "Too many terminals are open")
	}
	m.running++
	t = newTerminal(filepath.Join(m.dir, session.DirName(id)))
	m.terminals[id] = t
	m.order = append(m.order, id)
	return t, true, nil
}

func (m *Manager) drop(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.terminals, id)
	m.order = slices.DeleteFunc(m.order, func(known string) bool { return known == id })
	m.running--
}

func (m *Manager) ended(t *Terminal) {
	m.mu.Lock()
	m.running--
	m.mu.Unlock()
	m.keep.Ended(t.dir, t.stream)
	for _, dir := range m.keep.Beyond(keptMax) {
		m.forget(dir)
		_ = os.RemoveAll(dir) // the next boot lists a directory that remains
	}
}

func (m *Manager) forget(dir string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.order = slices.DeleteFunc(m.order, func(id string) bool { return m.terminals[id].dir == dir })
	maps.DeleteFunc(m.terminals, func(_ string, t *Terminal) bool { return t.dir == dir })
}

func (m *Manager) Get(id string) (*Terminal, error) {
	m.index.Do(m.load)
	m.mu.Lock()
	t := m.terminals[id]
	m.mu.Unlock()
	if t == nil {
		return nil, fail.NotFound("session_not_found", "There is no such terminal")
	}
	<-t.ready
	return t, t.startErr
}

func (m *Manager) start(t *Terminal, req wire.PtyRequest, command wire.ExecRequest) error {
	t.record = wire.PtyRecord{
		SessionID: req.SessionID, Argv: req.Argv, Cwd: command.Cwd, User: command.User, PtySize: req.PtySize,
		State: record.Starting, StartedAt: record.Stamp(time.Now()),
	}
	t.stream = output.NewStream(t.dir, "output", m.keep.SegmentBytes())
	user, known, err := m.guest.User(command.User)
	if err != nil {
		return err
	}
	if len(req.Argv) == 0 {
		command.Argv = loginShell(user)
		t.record.Argv = command.Argv
	}
	if err := os.MkdirAll(m.dir, 0o700); err != nil && !record.IsFull(err) {
		return err
	}
	// On a full disk (record.IsFull) a terminal opens too, with its record only in memory.
	log, err := createRecord(t.dir, entry{Fingerprint: t.fingerprint, Record: t.record})
	if err != nil && !record.IsFull(err) {
		return err
	}
	t.log = log // on a full disk nil, and writes fail without effect
	m.keep.Began(t.stream)
	why := fmt.Sprintf("The user %q does not exist", command.User)
	if known {
		why = m.spawn(t, user, command)
	}
	if why != "" {
		t.failedToStart(why)
		m.ended(t)
	}
	return nil
}

func loginShell(user guestroot.User) []string {
	if user.Shell == "" {
		return []string{"/bin/sh", "-l"}
	}
	return []string{user.Shell, "-l"}
}

func (m *Manager) spawn(t *Terminal, user guestroot.User, command wire.ExecRequest) string {
	d, err := openDevice(user.UID, t.record.PtySize)
	if err != nil {
		return fmt.Sprintf("The workspace is at a resource limit: %v", err)
	}
	env := map[string]string{"TERM": "xterm-256color"}
	for name, value := range command.Env {
		env[name] = value
	}
	m.mu.Lock()
	c := &spawn.Command{
		Argv: command.Argv, Cwd: command.Cwd, UID: user.UID, GID: user.GID, Groups: user.Groups, ProcessesMax: m.processesMax,
		Stdin: d.replica, Stdout: d.replica, Stderr: d.replica, Terminal: true,
	}
	m.mu.Unlock()
	c.Env, c.Path = session.Environment(user, env)
	started, err := m.guest.Start(c)
	if err != nil {
		d.close()
		return session.Explain(err, command)
	}
	t.started(d, started.PID, started.GuestPID)
	m.reaper.Watch(started.PID, func(status unix.WaitStatus) { t.leaderExited(d, status) })
	go func() {
		t.run(d, m.keep.Grew)
		m.ended(t)
	}()
	return ""
}
