package hostd

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/network"
)

// warmPool holds warm sandboxes for starts, some with a disk, and blank ones for restores. It makes one at a time and
// only while no verb runs, so that it does not slow down calls.
type warmPool struct {
	host   *Host
	mu     sync.Mutex
	slots  []*engine.Sandbox
	shells []*engine.Sandbox
	recent recentStarts
	verbs  int
	wake   chan struct{}
	fixed  atomic.Bool // the engine cannot change a sandbox's memory

	busySince time.Time // used only by the filling loop
}

const (
	quietTime    = 150 * time.Millisecond // no sandbox is made so soon after a verb: the verb's machine is probably in use
	patienceTime = 2 * time.Second
	fillRetry    = 5 * time.Second
	slotLife     = 60 * time.Second // time limit for making one sandbox
	cpusVisible  = 2                // minimum number of CPUs that a guest sees: with fewer, programs omit their locks
)

func (k *warmPool) init(h *Host) {
	k.host = h
	k.wake = make(chan struct{}, 1)
}

func (k *warmPool) began() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.verbs++
}

func (k *warmPool) ended() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.verbs--
	k.poke()
}

func (k *warmPool) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *warmPool) takeWarm(ctx context.Context, size engine.Size) (*engine.Sandbox, error) {
	if s := k.takeMatching(ctx, size, nil); s != nil {
		return s, nil
	}
	if s := k.startBlank(ctx, size); s != nil {
		return s, nil
	}
	return k.host.engine.StartWarm(ctx, size)
}

func (k *warmPool) takeMatching(ctx context.Context, size engine.Size, digests []string) *engine.Sandbox {
	return k.takeSized(ctx, &k.slots, size, func(s *engine.Sandbox) bool {
		return slices.Equal(s.Record().Fitted, digests) && seesAsMany(s, size)
	})
}

// startBlank uses a blank sandbox for a start. A restore that comes before that sandbox is replaced has to wait for a
// new one.
func (k *warmPool) startBlank(ctx context.Context, size engine.Size) *engine.Sandbox {
	current := func(s *engine.Sandbox) bool {
		return s.Record().Build() == k.host.engine.Current() && seesAsMany(s, size)
	}
	s := k.takeSized(ctx, &k.shells, size, current)
	if s == nil {
		return nil
	}
	if err := k.host.engine.StartBlank(ctx, s); err != nil {
		k.host.log.Warn("a blank sandbox could not be started", "slot", s.Slot, "error", err)
		go k.remove(s)
		return nil
	}
	return s
}

// takeBlank prefers a sandbox with the wanted address. It ignores the number of CPUs, which the checkpoint determines.
func (k *warmPool) takeBlank(ctx context.Context, size engine.Size, build engine.Build, wanted network.Wish) (*engine.Sandbox, error) {
	fits := func(s *engine.Sandbox) bool { return s.Record().Build() == build }
	there := func(s *engine.Sandbox) bool { return fits(s) && s.Record().Address == wanted.Address.String() }
	for _, wants := range []func(*engine.Sandbox) bool{there, fits} {
		if s := k.takeSized(ctx, &k.shells, size, wants); s != nil {
			return s, nil
		}
	}
	return k.host.engine.CreateBlank(ctx, size, build, wanted)
}

func (k *warmPool) takeSized(ctx context.Context, from *[]*engine.Sandbox, size engine.Size, fits func(*engine.Sandbox) bool) *engine.Sandbox {
	exact := func(s *engine.Sandbox) bool { return s.Record().Size.MemoryMiB == size.MemoryMiB && fits(s) }
	if s := k.take(from, exact); s != nil || k.fixed.Load() {
		return s
	}
	s := k.take(from, fits)
	if s == nil {
		return nil
	}
	err := k.host.engine.SetGuestMemory(ctx, s, size)
	if err == nil {
		return s
	}
	k.fixed.Store(errors.Is(err, engine.ErrFixedMemory))
	k.host.log.Warn("a warm sandbox keeps its size", "slot", s.Slot, "error", err)
	go k.remove(s)
	return nil
}

func (k *warmPool) take(from *[]*engine.Sandbox, fits func(*engine.Sandbox) bool) *engine.Sandbox {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, s := range *from {
		if !s.Ended() && fits(s) {
			*from = slices.Delete(*from, i, i+1)
			k.poke()
			return s
		}
	}
	return nil
}

func (k *warmPool) put(s *engine.Sandbox) {
	k.mu.Lock()
	if s.Record().Kind == engine.KindBlank {
		k.shells = append(k.shells, s)
	} else {
		k.slots = append(k.slots, s)
	}
	k.mu.Unlock()
	go func() {
		<-s.Done()
		k.lost(s)
	}()
}

func (k *warmPool) returnWarm(s *engine.Sandbox) {
	k.mu.Lock()
	k.slots = append(k.slots, s)
	k.mu.Unlock()
	if s.Ended() { // it ended before it was in the list, so its end was not handled
		k.lost(s)
	}
}

func (k *warmPool) lost(s *engine.Sandbox) {
	k.mu.Lock()
	waiting := slices.Contains(k.slots, s) || slices.Contains(k.shells, s)
	k.slots, k.shells = without(k.slots, s), without(k.shells, s)
	k.mu.Unlock()
	if !waiting {
		return // a verb has taken the sandbox and handles its end
	}
	k.remove(s)
	k.poke()
}

// remove ends a sandbox. After a failure the orphan sweep removes it.
func (k *warmPool) remove(s *engine.Sandbox) {
	ctx, cancel := context.WithTimeout(context.Background(), slotLife)
	defer cancel()
	err := k.host.engine.Remove(ctx, s)
	if err == nil {
		err = k.host.pool.DeleteSpare(ctx, s.Slot)
	}
	if err != nil {
		k.host.log.Error("a warm sandbox is not removed yet", "slot", s.Slot, "error", err)
		k.host.engine.Abandon(s)
	}
}

func (k *warmPool) counts() (slots, shells int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.slots), len(k.shells)
}

const (
	toFit  = "fit"
	toDrop = "drop"
)

func (k *warmPool) fill(ctx context.Context) {
	for ctx.Err() == nil {
		kind := k.missing()
		if kind == "" {
			wait(ctx, k.wake, time.Hour)
			continue
		}
		if k.awaitQuiet(ctx, kind) {
			continue
		}
		if err := k.add(ctx, kind); err != nil && ctx.Err() == nil {
			k.host.log.Error("no warm sandbox could be started", "kind", kind, "error", err)
			wait(ctx, nil, fillRetry)
		}
	}
}

// awaitQuiet returns true if a verb ran in between, so the caller asks again. If a kind has run out, it waits only for
// running verbs and at most patienceTime. The next start or restore would take as long.
func (k *warmPool) awaitQuiet(ctx context.Context, kind string) bool {
	slots, shells := k.counts()
	out := slots == 0 && kind == engine.KindWarm || shells == 0 && kind == engine.KindBlank
	if !k.busy() {
		k.busySince = time.Time{}
		if out {
			return false
		}
		wait(ctx, nil, quietTime)
		return k.busy() || ctx.Err() != nil
	}
	if k.busySince.IsZero() {
		k.busySince = time.Now()
	}
	if out && time.Since(k.busySince) > patienceTime {
		return false
	}
	wait(ctx, k.wake, patienceTime/4)
	return true
}

func (k *warmPool) add(ctx context.Context, kind string) error {
	ctx, cancel := context.WithTimeout(ctx, slotLife)
	defer cancel()
	switch kind {
	case toFit:
		return k.fit(ctx)
	case toDrop:
		k.dropUnwanted()
		return nil
	}
	config := k.host.config.Slots
	size := engine.Size{CPUMillis: config.CPUMillis, MemoryMiB: config.MemoryMiB}
	start := func() (*engine.Sandbox, error) { return k.host.engine.StartWarm(ctx, size) }
	if kind == engine.KindBlank {
		start = func() (*engine.Sandbox, error) { return k.host.engine.CreateBlankForPool(ctx, size) }
	}
	s, err := start()
	if err == nil {
		k.put(s)
	}
	return err
}

// missing returns the next thing to make. The kinds alternate, so that neither waits for all of the other. While both
// kinds are available, disks come first, because they take the least time.
func (k *warmPool) missing() string {
	if k.host.refusesEngine(k.host.engine.Version()) {
		return "" // sandboxes of a refused engine could not be used
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	wantSlots, wantShells := k.host.config.Slots.Count-len(k.slots), k.host.config.Shells.Count-len(k.shells)
	out := len(k.slots) == 0 && wantSlots > 0 || len(k.shells) == 0 && wantShells > 0
	switch {
	case !out && k.outdated() != nil:
		return toDrop
	case !out && k.nextToPrepare() != nil:
		return toFit
	case wantSlots <= 0 && wantShells <= 0:
		return ""
	case wantShells > wantSlots || wantSlots <= 0:
		return engine.KindBlank
	default:
		return engine.KindWarm
	}
}

func (k *warmPool) busy() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.verbs > 0
}

func seesAsMany(s *engine.Sandbox, size engine.Size) bool {
	return visibleCPUs(s.Record().Size) == visibleCPUs(size)
}

func visibleCPUs(size engine.Size) int {
	return min(max(cpusVisible, (size.CPUMillis+999)/1000), max(cpusVisible, runtime.NumCPU()))
}

func wait(ctx context.Context, wake <-chan struct{}, atMost time.Duration) {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}
