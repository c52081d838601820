// Package once is the idempotency log, in the state directory outside of the guest's tree. The log outlives the
// gateway, a suspend and a fork. After a crash it distinguishes finished changes from unfinished ones.
package once

import (
	"encoding/json"
	"sync"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
)

// Beyond these limits the oldest records are dropped. A repeated call with the key of a dropped record runs again.
const (
	recordsMax      = 10_000
	recordsBytesMax = 4 << 20
)

const (
	announced = "announced" // the change is about to take effect; after a crash the caller checks whether it did
	done      = "done"
	dropped   = "dropped" // the change did not take effect
)

// Record is the last state of a key. The fields after State belong to the caller.
type Record struct {
	Key     string          `json:"key"`
	State   string          `json:"state"`
	Request string          `json:"request,omitempty"` // fingerprint of the request; another request with this key is refused
	Before  string          `json:"before,omitempty"`  // the state that shows that the change did not take effect
	After   string          `json:"after,omitempty"`   // the state that shows that the change took effect
	Result  json.RawMessage `json:"result,omitempty"`
}

// Done is false if the machine died during the change. Before and After then show whether the change took effect.
func (r *Record) Done() bool { return r.State == done }

type entry struct {
	record Record
	bytes  int64
	at     int64 // position in order
}

// Log belongs to one claim of a machine.
type Log struct {
	path string

	mu      sync.Mutex
	log     *logFile
	entries map[string]*entry
	order   []string // keys, oldest first; a rewritten key appears twice
	first   int64    // position of order[0]
	bytes   int64
	busy    map[string]chan struct{}
}

func Open(path string) (*Log, error) {
	m := &Log{path: path, entries: map[string]*entry{}, busy: map[string]chan struct{}{}}
	log, err := openLog(path, m.remember)
	m.log = log
	return m, err
}

// KeyLock is the exclusive lock of a key, until Unlock.
type KeyLock struct {
	memory *Log
	key    string
	record *Record
	open   bool // announced under this lock and not settled
}

// Lock waits until the key is free. If gone is closed first, Lock returns an error.
func (m *Log) Lock(key string, gone <-chan struct{}) (*KeyLock, error) {
	for {
		m.mu.Lock()
		other, taken := m.busy[key]
		if !taken {
			m.busy[key] = make(chan struct{})
			t := &KeyLock{memory: m, key: key}
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

// Known is the key's earlier record, or nil.
func (t *KeyLock) Known() *Record { return t.record }

// Announce durably records that a change is about to take effect, how to check the change, and a provisional result.
func (t *KeyLock) Announce(request, before, after string, result any) error {
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	t.open = true
	return t.memory.note(Record{Key: t.key, State: announced, Request: request, Before: before, After: after, Result: text}, true)
}

func (t *KeyLock) Settle(request string, result any) error {
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	t.open = false
	// This record need not be durable, because the durable announcement is enough to recover.
	return t.memory.note(Record{Key: t.key, State: done, Request: request, Result: text}, false)
}

// Unlock records an announced change that was not settled as dropped. Callers must settle every change that took
// effect.
func (t *KeyLock) Unlock() {
	if t.open {
		// If this write fails, the record stays announced, and the next caller checks whether the change took effect.
		_ = t.memory.note(Record{Key: t.key, State: dropped}, false)
	}
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	close(t.memory.busy[t.key])
	delete(t.memory.busy, t.key)
}

func (m *Log) note(r Record, durable bool) error {
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

func (m *Log) remember(r Record, bytes int64) {
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

func (m *Log) forgetOldest() {
	key := m.order[0]
	if e := m.entries[key]; e != nil && e.at == m.first {
		m.bytes -= e.bytes
		delete(m.entries, key)
	}
	m.order = m.order[1:]
	m.first++
}

func (m *Log) records() (list []Record) {
	for i, key := range m.order {
		if e := m.entries[key]; e != nil && e.at == m.first+int64(i) {
			list = append(list, e.record)
		}
	}
	return list
}
