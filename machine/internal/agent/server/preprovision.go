package server

import (
	"log"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guest"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/agent/identity"
	"github.com/berth-dev/berth/machine/internal/agent/pty"
	"github.com/berth-dev/berth/machine/internal/agent/session"
	"github.com/berth-dev/berth/machine/internal/wire"
)

type preProvisioned struct {
	tree      *identity.Prepared
	sessions  *session.Manager
	terminals *pty.Manager
	processes int // the guest's task limit
}

// preProvision does the part of a claim that does not depend on the workspace, without a guest process. After an
// error the sandbox must be discarded.
func (m *machine) preProvision(slot wire.Incarnation) error {
	m.becoming.Lock()
	defer m.becoming.Unlock()
	if m.keys.incarnation().WorkspaceID != "" {
		return fail.Conflict("already_claimed", "The slot belongs to a workspace")
	}
	if m.fitted != nil {
		return nil
	}
	limits := limitsOf(slot)
	f := &preProvisioned{processes: limits.Processes}
	var err error
	if f.tree, err = m.prepareTree(slot); err != nil {
		return err
	}
	m.guest.SetTasks(limits.Processes)
	if err := m.guest.Adopt(); err != nil {
		return err
	}
	if f.sessions, err = m.openSessions(limits); err != nil {
		return err
	}
	f.terminals = m.openTerminals(limits)
	m.guest.Warm()
	m.fitted = f
	return nil
}

func (m *machine) prepareTree(slot wire.Incarnation) (*identity.Prepared, error) {
	root, err := guestroot.OpenDir(m.paths.ClaimRoot)
	if err != nil {
		return nil, err
	}
	defer root.Release()
	return identity.Prepare(root, m.paths.ClaimState, slot)
}

func (m *machine) adoptFitted(in wire.Incarnation) {
	f, limits := m.fitted, limitsOf(in)
	m.fitted = nil
	if limits.Processes != f.processes {
		m.guest.SetTasks(limits.Processes)
	}
	if err := f.tree.Claim(in); err != nil {
		log.Printf("identity: %v", err)
	}
	m.setVolumes(in, guest.LeaveBusy)
	f.sessions.SetLimits(forCommands(limits))
	f.terminals.SetLimits(forTerminals(limits))
	m.open(f.sessions, f.terminals, limits)
}
