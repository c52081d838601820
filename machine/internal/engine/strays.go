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

// Abandon leaves a sandbox that could not be removed to whoever asks for Strays.
func (e *Engine) Abandon(s *Sandbox) { e.letGo(s.Slot) }

// Has says whether this process has a slot in hand.
func (e *Engine) Has(slot string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.held[slot]
}

// Strays names the slots that left a trace and that this process does not have in hand. A slot is in hand before its first trace is
// made and until its last one is gone, so what is found first and not in hand afterwards belongs to nobody.
func (e *Engine) Strays() ([]string, error) {
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

// RemoveStray takes away a slot that Strays named, whatever is left of it.
func (e *Engine) RemoveStray(ctx context.Context, slot string) error {
	return e.Remove(ctx, &Sandbox{Slot: slot, Dir: filepath.Join(e.slotsDir(), slot)})
}
