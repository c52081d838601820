package pty

import (
	"os"
	"path/filepath"
	"sort"

	"github.com/berth-dev/berth/machine/internal/agent/output"
)

const outputBytesDefault = 64 << 20

func (m *Manager) all() (list []*Terminal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range m.order {
		t := m.terminals[id]
		select {
		case <-t.ready:
			if t.startErr == nil {
				list = append(list, t)
			}
		default:
		}
	}
	return list
}

func (m *Manager) load() {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return // no terminals yet
	}
	var old []*Terminal
	for _, e := range entries {
		if t := loadTerminal(filepath.Join(m.dir, e.Name())); t != nil {
			old = append(old, t)
		}
	}
	sort.Slice(old, func(i, j int) bool { return beganBefore(old[i], old[j]) })
	m.mu.Lock()
	for _, t := range old {
		m.terminals[t.record.SessionID] = t
		m.order = append(m.order, t.record.SessionID)
	}
	m.mu.Unlock()
	for _, t := range old {
		bytes := t.stream.Retained()
		m.keep.Ended(t.dir, t.stream)
		m.keep.Grew(bytes)
	}
}

func loadTerminal(dir string) *Terminal {
	e, err := readRecord(dir)
	if err != nil {
		return nil
	}
	stream, err := output.LoadStream(dir, "output", e.Record.Bytes)
	if err != nil {
		return nil
	}
	t := newTerminal(dir)
	t.fingerprint, t.record, t.stream = e.Fingerprint, e.Record, stream
	close(t.ready)
	return t
}

func beganBefore(a, b *Terminal) bool {
	if a.record.EndedAt == nil || b.record.EndedAt == nil {
		return a.record.EndedAt != nil
	}
	return *a.record.EndedAt < *b.record.EndedAt
}
