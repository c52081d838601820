package engine

import (
	"context"
	"path/filepath"
	"regexp"
)

var slotNamePattern = regexp.MustCompile(`^[0-9a-f]{6}$`)

func (e *Engine) hold(slot string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held[slot] = true
}

func (e *Engine) letGo(slot string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.held, slot)
}

// Abandon gives up a sandbox that cannot be removed, so that Orphans finds it.
func (e *Engine) Abandon(s *Sandbox) { e.letGo(s.Slot) }

// Has reports whether this process owns a slot.
func (e *Engine) Has(slot string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.held[slot]
}

// Orphans lists slots before owners. A slot is owned before its first object exists and until its last is gone.
func (e *Engine) Orphans() ([]string, error) {
	found, err := e.everySlot()
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var strays []string
	for _, slot := range found {
		if !e.held[slot] && slotNamePattern.MatchString(slot) {
			strays = append(strays, slot)
		}
	}
	return strays, nil
}

func (e *Engine) RemoveOrphan(ctx context.Context, slot string) error {
	return e.Remove(ctx, &Sandbox{Slot: slot, Dir: filepath.Join(e.slotsDir(), slot)})
}
