// Package once remembers what became of changes that came under a key, so that a repeat is answered and not done again. It
// lives in the state directory beside the guest's disk: it outlives the gateway, a suspend and a fork, and what was being
// done when the machine's computer died is told apart from what was done.
package once

import (
	"encoding/json"
	"sync"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
)

// Bounds of what is remembered; the oldest go first, and a repeat under their key is done again.
const (
	recordsMax      = 10_000
	recordsBytesMax = 4 << 20
)

// States of a record.
const (
	announced = "announced" // about to take effect; a later start finds out whether it did
	done      = "done"
	dropped   = "dropped" // it did not take effect
)

// Record is one change. The fields beside Key and State are the caller's.
type Record struct {
	Key     string          `json:"key"`
	State   string          `json:"state"`
	Request string          `json:"request,omitempty"` // what was asked; another request under the key is refused
	Before  string          `json:"before,omitempty"`  // how to tell that it did not take effect
	After   string          `json:"after,omitempty"`   // how to tell that it did
	Result  json.RawMessage `json:"result,omitempty"`
}

// Done says that Result is what was answered; otherwise the machine ended while the change was under way, and Before and
// After tell whether it took effect.
func (r *Record) Done() bool { return r.State == done }

type entry struct {
	record Record
	bytes  int64
	at     int64 // position in order
}

// Memory is what was remembered under keys. It lives as long as one claim of a machine.
type Memory struct {
	path string

	mu      sync.Mutex
	log     *logFile
	entries map[string]*entry
	order   []string // keys, oldest first; a key that was remembered again stands there twice
	first   int64    // position of order[0]
	bytes   int64
	busy    map[string]chan struct{}
}

// Open reads what earlier boots remembered.
func Open(path string) (*Memory, error) {
	m := &Memory{path: path, entries: map[string]*entry{}, busy: map[string]chan struct{}{}}
	log, err := openLog(path, m.remember)
	m.log = log
	return m, err
}

// Turn is the right to act under a key, until End.
type Turn struct {
	memory *Memory
	key    string
	record *Record
	open   bool // announced by this turn, and not settled
}

// Begin waits until nobody else acts under the key. gone ends the wait.
func (m *Memory) Begin(key string, gone <-chan struct{}) (*Turn, error) {
	for {
		m.mu.Lock()
		other, taken := m.busy[key]
		if !taken {
			m.busy[key] = make(chan struct{})
			t := &Turn{memory: m, key: key}
			if e := m.entries[key]; e != nil {
				known := e.record
				t.record = &known
			}
			m.mu.Unlock()
			return t, nil
		}
		m.mu.Unlock()
		select {
		case <-other:
		case <-gone:
			return nil, fail.Conflict("operation_interrupted", "The call was given up")
		}
	}
}

// Known is what the key stands for; nil: nothing yet.
func (t *Turn) Known() *Record { return t.record }

// Announce notes, durably, what is about to take effect, how to tell whether it did, and as much of the answer as is known.
func (t *Turn) Announce(request, before, after string, result any) error {
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	t.open = true
	return t.memory.note(Record{Key: t.key, State: announced, Request: request, Before: before, After: after, Result: text}, true)
}

// Settle notes the answer.
func (t *Turn) Settle(request string, result any) error {
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	t.open = false
	// Not synced: the announcement is, and tells the rest.
	return t.memory.note(Record{Key: t.key, State: done, Request: request, Result: text}, false)
}

// End lets the next one act. The caller must settle a change that took effect: End notes one that was announced and not settled as dropped.
func (t *Turn) End() {
	if t.open {
		// A record that cannot be taken back says "announced", and the next caller finds out.
		_ = t.memory.note(Record{Key: t.key, State: dropped}, false)
	}
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	close(t.memory.busy[t.key])
	delete(t.memory.busy, t.key)
}

func (m *Memory) note(r Record, durable bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	bytes, err := m.log.append(r, durable)
	if err != nil {
		return err
	}
	m.remember(r, bytes)
	if m.log.bytes > 2*recordsBytesMax {
		return m.log.rewrite(m.path, m.records())
	}
	return nil
}

// remember runs with mu held, or before anybody else knows m.
func (m *Memory) remember(r Record, bytes int64) {
	if old := m.entries[r.Key]; old != nil {
		m.bytes -= old.bytes
		delete(m.entries, r.Key)
	}
	if r.State == dropped {
		return
	}
	m.entries[r.Key] = &entry{record: r, bytes: bytes, at: m.first + int64(len(m.order))}
	m.order = append(m.order, r.Key)
	m.bytes += bytes
	for len(m.entries) > recordsMax || m.bytes > recordsBytesMax || len(m.order) > 2*recordsMax {
		m.forgetOldest()
	}
}

func (m *Memory) forgetOldest() {
	key := m.order[0]
	if e := m.entries[key]; e != nil && e.at == m.first {
		m.bytes -= e.bytes
		delete(m.entries, key)
	}
	m.order = m.order[1:]
	m.first++
}

func (m *Memory) records() (list []Record) {
	for i, key := range m.order {
		if e := m.entries[key]; e != nil && e.at == m.first+int64(i) {
			list = append(list, e.record)
		}
	}
	return list
}
