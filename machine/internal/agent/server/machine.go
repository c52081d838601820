// Package server is the agent's HTTP server.
package server

import (
	"log"
	"path/filepath"
	"sync"

	"github.com/berth-dev/berth/machine/internal/agent/browser"
	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/files"
	"github.com/berth-dev/berth/machine/internal/agent/guard"
	"github.com/berth-dev/berth/machine/internal/agent/guest"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/agent/helper"
	"github.com/berth-dev/berth/machine/internal/agent/identity"
	"github.com/berth-dev/berth/machine/internal/agent/once"
	"github.com/berth-dev/berth/machine/internal/agent/pty"
	"github.com/berth-dev/berth/machine/internal/agent/reap"
	"github.com/berth-dev/berth/machine/internal/agent/session"
	"github.com/berth-dev/berth/machine/internal/agent/watch"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// Paths are directories in the sandbox's root.
type Paths struct {
	Incarnations string
	ClaimRoot    string
	ClaimState   string
	Layers       string // has upper and template, outside of the guest's root
}

// Before the claim, sessions, terminals and guard are nil.
type machine struct {
	paths  Paths
	keys   keys
	guest  *guest.Guest
	reaper *reap.Reaper
	disk   *guestroot.Root // the disk reader's disk; no other field is set then

	becoming  sync.Mutex      // serializes fit, claim and changes of incarnation
	fitted    *preProvisioned // nil: the sandbox has no disk, or a workspace has claimed it
	mu        sync.RWMutex
	sessions  *session.Manager
	guard     *guard.Guard
	writes    *once.Log // nil before the first keyed write
	terminals *pty.Manager
	helpers   *helper.Runner
	browser   *browser.Browser
	watches   watch.Manager
	refused   []wire.RefusedVolume // at the start of the current incarnation
}

func newMachine(paths Paths, g *guest.Guest, reaper *reap.Reaper) *machine {
	helpers := helper.New(g, reaper)
	return &machine{
		paths: paths, keys: keys{dir: paths.Incarnations}, guest: g, reaper: reaper,
		helpers: helpers, browser: browser.New(g, helpers),
	}
}

// claim answers a repeated claim with the first claim's reply.
func (m *machine) claim(in wire.Incarnation) (wire.Incarnation, error) {
	m.becoming.Lock()
	defer m.becoming.Unlock()
	if have := m.keys.incarnation(); have.WorkspaceID != "" {
		if have.WorkspaceID != in.WorkspaceID || have.Epoch != in.Epoch {
			return have, fail.Conflict("already_claimed", "The slot belongs to a workspace")
		}
		return m.shown(have), nil
	}
	if in.WorkspaceID == "" || in.Epoch < 1 {
		return in, fail.BadRequest("invalid_claim", "A claim names workspace and epoch")
	}
	if in.Key == "" {
		file, err := m.keys.load(in.Epoch)
		if err != nil {
			return in, fail.BadRequest("invalid_claim", "The incarnation's key is missing")
		}
		in.Key = file.Key
	}
	if err := m.adopt(in); err != nil {
		return in, err
	}
	m.keys.become(in)
	return m.shown(in), nil
}

// adopt mounts the tree and writes the identity in parallel, because the first command needs both.
func (m *machine) adopt(in wire.Incarnation) error {
	if m.fitted != nil {
		m.adoptFitted(in)
		return nil
	}
	limits := limitsOf(in)
	identified := make(chan error, 1)
	go func() { identified <- m.identify(in) }()
	m.guest.SetTasks(limits.Processes)
	err := m.guest.Adopt()
	if failed := <-identified; failed != nil {
		log.Printf("identity: %v", failed)
	}
	if err != nil {
		return err
	}
	m.setVolumes(in, guest.LeaveBusy)
	sessions, err := m.openSessions(limits)
	if err != nil {
		return err
	}
	m.open(sessions, m.openTerminals(limits), limits)
	return nil
}

func (m *machine) open(sessions *session.Manager, terminals *pty.Manager, limits wire.GuestLimits) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions, m.terminals = sessions, terminals
	m.guard = guard.Start(m.guest, limits.MemoryBytes, limits.Processes)
	m.guard.OnEnd(sessions.Ending)
	m.guest.OnStart(m.guard.Wake)
}

func (m *machine) openSessions(limits wire.GuestLimits) (*session.Manager, error) {
	return session.Open(filepath.Join(m.paths.ClaimState, "exec"), m.guest, m.reaper, forCommands(limits))
}

func (m *machine) openTerminals(limits wire.GuestLimits) *pty.Manager {
	return pty.Open(filepath.Join(m.paths.ClaimState, "pty"), m.guest, m.reaper, forTerminals(limits))
}

func (m *machine) identify(in wire.Incarnation) error {
	root, err := guestroot.OpenDir(m.paths.ClaimRoot)
	if err != nil {
		return err
	}
	defer root.Release()
	return identity.Apply(root, m.paths.ClaimState, in)
}

// A resume waits for identifyAgain, so an unchanged identity is not written again.
func (m *machine) identifyAgain(have, in wire.Incarnation) error {
	same := have.WorkspaceID == in.WorkspaceID && have.Hostname == in.Hostname && have.Nameserver == in.Nameserver
	if same && !in.RenewIdentity && in.Hostname != "" {
		return identity.Continue(in)
	}
	return m.identify(in)
}

func (m *machine) become(in wire.Incarnation) {
	m.becoming.Lock()
	defer m.becoming.Unlock()
	have := m.keys.incarnation()
	// A machine restored from hibernation keeps its epoch and gets a new key, so the key is compared too.
	if have.WorkspaceID == in.WorkspaceID && (have.Epoch > in.Epoch || have.Epoch == in.Epoch && m.keys.holds(in)) {
		return // another call made the change first
	}
	if err := m.identifyAgain(have, in); err != nil {
		log.Printf("identity: %v", err)
	}
	m.setVolumes(in, guest.Detach)
	limits := limitsOf(in)
	m.mu.RLock()
	m.guest.SetTasks(limits.Processes)
	m.sessions.SetLimits(forCommands(limits))
	m.terminals.SetLimits(forTerminals(limits))
	m.guard.SetLimits(limits.MemoryBytes, limits.Processes)
	m.mu.RUnlock()
	m.keys.become(in)
}

func limitsOf(in wire.Incarnation) wire.GuestLimits {
	var limits wire.GuestLimits
	if in.Limits != nil {
		limits = *in.Limits
	}
	if limits.Processes <= 0 {
		limits.Processes = 4096
	}
	return limits
}

func (m *machine) shown(in wire.Incarnation) wire.Incarnation {
	in.Key = ""
	in.Protocol = wire.AgentProtocol
	m.mu.RLock()
	in.RefusedVolumes = m.refused
	m.mu.RUnlock()
	return in
}

func (m *machine) running() (*session.Manager, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.sessions == nil {
		return nil, fail.Conflict("not_claimed", "The machine is not claimed")
	}
	return m.sessions, nil
}

func (m *machine) owner() files.Owner {
	user, ok, err := m.guest.User("user")
	if err != nil || !ok {
		return files.Owner{}
	}
	return files.Owner{UID: int(user.UID), GID: int(user.GID)}
}
