package pty

import (
	"os"
	"path/filepath"
	"sort"
	"sync"

	"github.com/berth-dev/berth/machine/internal/agent/output"
)

// outputBytesDefault bounds retained output when the incarnation names no limit.
const outputBytesDefault = 64 << 20

// keeper holds one bound over the retained output of all terminals: the oldest ended ones give theirs up first, then the
// running ones their oldest segments.
type keeper struct {
	manager *Manager

	mu    sync.Mutex
	limit int64
	total int64
}

func (k *keeper) setLimit(bytes int64) {
	if bytes <= 0 {
		bytes = outputBytesDefault
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.limit = bytes
	k.makeRoom()
}

func (k *keeper) segmentBytes() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return output.SegmentFor(k.limit)
}

func (k *keeper) grew(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.total += int64(n)
	k.makeRoom()
}

// makeRoom runs with mu held. What it counted is counted anew each time it acts: records go without telling it.
func (k *keeper) makeRoom() {
	if k.total <= k.limit {
		return
	}
	all := k.manager.all()
	k.total = 0
	for _, t := range all {
		k.total += t.stream.Retained()
	}
	for _, t := range all {
		for !t.running() && k.total > k.limit {
			freed := t.stream.DropOldest()
			if freed == 0 {
				break
			}
			k.total -= freed
		}
	}
	for k.total > k.limit {
		freed := largest(all).DropOldest()
		if freed == 0 {
			return // only segments that are still written remain
		}
		k.total -= freed
	}
}

func largest(all []*Terminal) *output.Stream {
	most := all[0].stream
	for _, t := range all {
		if t.stream.Retained() > most.Retained() {
			most = t.stream
		}
	}
	return most
}

// all are the terminals whose start is decided, oldest first.
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

// load makes the terminals of earlier boots known.
func (m *Manager) load() {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return // there were none
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
		m.keep.grew(int(t.stream.Retained()))
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
