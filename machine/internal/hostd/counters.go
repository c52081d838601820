package hostd

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/wire"
)

var errNoDisk = errors.New("its disk cannot be measured")

func (h *Host) countersOf(s *engine.Sandbox) (wire.MachineCounters, error) {
	claim := s.Record().Claim
	one := wire.MachineCounters{Subject: wire.SubjectOf(claim.Owner), Epoch: claim.Epoch, Fence: claim.Fence, RanMS: ranFor(claim.StartedAt, time.Now())}
	var err error
	if one.CPUUsec, one.MemoryBytes, _, err = h.groups.Get(s.Slot).Stats(); err != nil {
		return one, err
	}
	if one.RxBytes, one.TxBytes, err = h.router.Stats(s.Slot); err != nil {
		return one, err
	}
	traffic, err := h.router.Traffic(s.Slot)
	if err != nil {
		return one, err
	}
	one.ReceivedBytes, one.SentBytes = traffic.Received, traffic.Sent
	if one.DiskBytes, err = h.pool.DiskBytes(claim.Owner); err != nil {
		return one, fmt.Errorf("%w: %w", errNoDisk, err)
	}
	return one, nil
}

// ranFor returns the machine's running time in milliseconds, or 0 if the clock was set back.
func ranFor(startedAt string, now time.Time) int64 {
	started, err := time.Parse(time.RFC3339, startedAt)
	if err != nil {
		return 0
	}
	return max(0, now.Sub(started).Milliseconds())
}

// lastCounters stores the last counters of ended machines, because callers may lose the answer and ask again.
type lastCounters struct {
	mu    sync.Mutex
	known map[string]endedCounters // by subject
}

type endedCounters struct {
	stats wire.MachineCounters
	at    time.Time
}

const (
	countersKept    = 10 * time.Minute
	countersLooseAt = 1024 // number of entries above which old ones are removed
)

func (l *lastCounters) keep(owner string, stats wire.MachineCounters, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]endedCounters{}
	}
	if len(l.known) >= countersLooseAt {
		for name, one := range l.known {
			if now.Sub(one.at) > countersKept {
				delete(l.known, name)
			}
		}
	}
	l.known[owner] = endedCounters{stats: stats, at: now}
}

func (l *lastCounters) forget(owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, owner)
}

func (l *lastCounters) of(owner string) *wire.MachineCounters {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one, ok := l.known[owner]; ok {
		return &one.stats
	}
	return nil
}

// noteLast must precede the removal of cgroup and network. Memory may be released, so the larger reading counts.
func (h *Host) noteLast(s *engine.Sandbox, held wire.MachineCounters) {
	last, err := h.countersOf(s)
	if err != nil {
		if last = held; last.Fence == 0 {
			h.log.Warn("the last counters of a machine cannot be read", "slot", s.Slot, "error", err)
			return
		}
	}
	last.MemoryBytes = max(last.MemoryBytes, held.MemoryBytes)
	h.last.keep(s.Record().Claim.Owner, last, time.Now())
}
