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

// stock is what waits ahead of need: slots for starts, some of them fitted, and shells for restores. It is filled in the background, one
// at a time, and only while no verb runs: a slot of tomorrow must not slow down a call of today.
type stock struct {
	host   *Host
	mu     sync.Mutex
	slots  []*engine.Sandbox
	shells []*engine.Sandbox
	recent recentStarts
	verbs  int
	wake   chan struct{}
	fixed  atomic.Bool // the engine cannot tell a sandbox of other memory

	busySince time.Time // of the filling loop alone
}

const (
	quietTime    = 150 * time.Millisecond // after a verb, before a slot is started: the machine it made is being used right now
	patienceTime = 2 * time.Second
	fillRetry    = 5 * time.Second
	slotLife     = 60 * time.Second // to start one
	cpusVisible  = 2                // at least: fewer make programs leave out their locks
)

func (k *stock) init(h *Host) {
	k.host = h
	k.wake = make(chan struct{}, 1)
}

// began and ended count the verbs that keep the filling back.
func (k *stock) began() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.verbs++
}

func (k *stock) ended() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.verbs--
	k.poke()
}

func (k *stock) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// takeSlot gives a waiting slot that fits and has no disk; none left means the slow path, never an error.
func (k *stock) takeSlot(ctx context.Context, size engine.Size) (*engine.Sandbox, error) {
	if s := k.takeWaiting(ctx, size, nil); s != nil {
		return s, nil
	}
	if s := k.startShell(ctx, size); s != nil {
		return s, nil
	}
	return k.host.engine.StartSlot(ctx, size)
}

// takeWaiting gives a slot that is fitted for the layers, of none one without a disk; nil when none waits.
func (k *stock) takeWaiting(ctx context.Context, size engine.Size, digests []string) *engine.Sandbox {
	return k.takeSized(ctx, &k.slots, size, func(s *engine.Sandbox) bool {
		return slices.Equal(s.Record().Fitted, digests) && seesAsMany(s, size)
	})
}

// startShell makes a slot of a shell that waits for a restore: one that comes before the next is there would wait as long.
func (k *stock) startShell(ctx context.Context, size engine.Size) *engine.Sandbox {
	current := func(s *engine.Sandbox) bool {
		return s.Record().Build() == k.host.engine.Current() && seesAsMany(s, size)
	}
	s := k.takeSized(ctx, &k.shells, size, current)
	if s == nil {
		return nil
	}
	if err := k.host.engine.StartShell(ctx, s); err != nil {
		k.host.log.Warn("a shell could not be started", "slot", s.Slot, "error", err)
		go k.remove(s)
		return nil
	}
	return s
}

// takeShell gives a shell of the right build: those that wait are of the current one. One that has the wanted address is taken first. How
// many processors the guest sees comes from the checkpoint.
func (k *stock) takeShell(ctx context.Context, size engine.Size, build engine.Build, wanted network.Wish) (*engine.Sandbox, error) {
	fits := func(s *engine.Sandbox) bool { return s.Record().Build() == build }
	there := func(s *engine.Sandbox) bool { return fits(s) && s.Record().Address == wanted.Address.String() }
	for _, wants := range []func(*engine.Sandbox) bool{there, fits} {
		if s := k.takeSized(ctx, &k.shells, size, wants); s != nil {
			return s, nil
		}
	}
	return k.host.engine.CreateShell(ctx, size, build, wanted)
}

// takeSized prefers one of the very size. Another is told of its memory, as far as the engine can.
func (k *stock) takeSized(ctx context.Context, from *[]*engine.Sandbox, size engine.Size, fits func(*engine.Sandbox) bool) *engine.Sandbox {
	exact := func(s *engine.Sandbox) bool { return s.Record().Size.MemoryMiB == size.MemoryMiB && fits(s) }
	if s := k.take(from, exact); s != nil || k.fixed.Load() {
		return s
	}
	s := k.take(from, fits)
	if s == nil {
		return nil
	}
	err := k.host.engine.TellMemory(ctx, s, size)
	if err == nil {
		return s
	}
	k.fixed.Store(errors.Is(err, engine.ErrFixedMemory))
	k.host.log.Warn("a slot stays of its size", "slot", s.Slot, "error", err)
	go k.remove(s)
	return nil
}

func (k *stock) take(from *[]*engine.Sandbox, fits func(*engine.Sandbox) bool) *engine.Sandbox {
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

// put adds one that is ready; it goes again when it ends by itself.
func (k *stock) put(s *engine.Sandbox) {
	k.mu.Lock()
	if s.Record().Kind == engine.KindShell {
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

// putBack adds a slot that was taken for a while.
func (k *stock) putBack(s *engine.Sandbox) {
	k.mu.Lock()
	k.slots = append(k.slots, s)
	k.mu.Unlock()
	if s.Ended() { // while it was nobody's
		k.lost(s)
	}
}

func (k *stock) lost(s *engine.Sandbox) {
	k.mu.Lock()
	waiting := slices.Contains(k.slots, s) || slices.Contains(k.shells, s)
	k.slots, k.shells = without(k.slots, s), without(k.shells, s)
	k.mu.Unlock()
	if !waiting {
		return // whoever took it deals with its end
	}
	k.remove(s)
	k.poke()
}

// remove takes away what nobody has claimed. What cannot be is left to the sweep of strays.
func (k *stock) remove(s *engine.Sandbox) {
	ctx, cancel := context.WithTimeout(context.Background(), slotLife)
	defer cancel()
	err := k.host.engine.Remove(ctx, s)
	if err == nil {
		err = k.host.pool.DeleteSpare(ctx, s.Slot)
	}
	if err != nil {
		k.host.log.Error("a slot is not removed yet", "slot", s.Slot, "error", err)
		k.host.engine.Abandon(s)
	}
}

func (k *stock) counts() (slots, shells int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.slots), len(k.shells)
}

// What there may be to do ahead of need, beside making slots and shells.
const (
	toFit  = "fit"
	toDrop = "drop"
)

// fill runs until the context ends.
func (k *stock) fill(ctx context.Context) {
	for ctx.Err() == nil {
		kind := k.missing()
		if kind == "" {
			wait(ctx, k.wake, time.Hour)
			continue
		}
		if k.holdBack(ctx, kind) {
			continue
		}
		if err := k.add(ctx, kind); err != nil && ctx.Err() == nil {
			k.host.log.Error("no slot could be started ahead of need", "kind", kind, "error", err)
			wait(ctx, nil, fillRetry)
		}
	}
}

// holdBack waits for a moment of quiet and says whether something came instead. When a kind has run out, quiet is not waited for, and
// not even a verb that never seems to end keeps it from being made: the slow path of the next start would cost as much.
func (k *stock) holdBack(ctx context.Context, kind string) bool {
	slots, shells := k.counts()
	out := slots == 0 && kind == engine.KindSlot || shells == 0 && kind == engine.KindShell
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

func (k *stock) add(ctx context.Context, kind string) error {
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
	start := func() (*engine.Sandbox, error) { return k.host.engine.StartSlot(ctx, size) }
	if kind == engine.KindShell {
		start = func() (*engine.Sandbox, error) { return k.host.engine.CreateShellAhead(ctx, size) }
	}
	s, err := start()
	if err == nil {
		k.put(s)
	}
	return err
}

// missing says what is short, slots and shells in turn so that neither waits for all of the other. Where neither has run out, what is
// there is fitted first: that is the shortest.
func (k *stock) missing() string {
	if k.host.refusesEngine(k.host.engine.Version()) {
		return "" // nobody could be given what is made
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	wantSlots, wantShells := k.host.config.Slots.Count-len(k.slots), k.host.config.Shells.Count-len(k.shells)
	out := len(k.slots) == 0 && wantSlots > 0 || len(k.shells) == 0 && wantShells > 0
	switch {
	case !out && k.unwanted() != nil:
		return toDrop
	case !out && k.unfitted() != nil:
		return toFit
	case wantSlots <= 0 && wantShells <= 0:
		return ""
	case wantShells > wantSlots || wantSlots <= 0:
		return engine.KindShell
	default:
		return engine.KindSlot
	}
}

func (k *stock) busy() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.verbs > 0
}

// seesAsMany: the guest would see as many processors as one of the size does.
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
