package hostd

import (
	"context"
	"errors"
	"slices"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// recentStarts lists the layers of the last blank disks, latest last, to predict those of the next start.
type recentStarts [][]string

// recentMax limits how long sandboxes are prepared for a template that is no longer used.
const recentMax = 8

func (r *recentStarts) add(digests []string) {
	*r = append(*r, digests)
	if len(*r) > recentMax {
		*r = (*r)[len(*r)-recentMax:]
	}
}

func (r *recentStarts) forget(digests []string) {
	*r = slices.DeleteFunc(*r, func(one []string) bool { return slices.Equal(one, digests) })
}

func (r recentStarts) count(digests []string) (n int) {
	for _, one := range r {
		if slices.Equal(one, digests) {
			n++
		}
	}
	return n
}

// favorite returns the most frequent layers, and on a tie the latest of them.
func (r recentStarts) favorite() (best []string) {
	for _, one := range slices.Backward(r) {
		if r.count(one) > r.count(best) {
			best = one
		}
	}
	return best
}

func hasPreparedDisk(s *engine.Sandbox) bool { return len(s.Record().Fitted) > 0 }

func (k *warmPool) noteStart(digests []string) {
	if len(digests) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.recent.add(digests)
	k.poke()
}

func (k *warmPool) takePrepared(ctx context.Context, size engine.Size, digests []string) *engine.Sandbox {
	if len(digests) == 0 {
		return nil
	}
	return k.takeMatching(ctx, size, digests)
}

// nextToPrepare leaves one of several sandboxes without a disk, for other templates and non-blank disks.
func (k *warmPool) nextToPrepare() *engine.Sandbox {
	if k.recent.favorite() == nil {
		return nil
	}
	var plain []*engine.Sandbox
	for _, s := range k.slots {
		if !hasPreparedDisk(s) {
			plain = append(plain, s)
		}
	}
	if len(plain) <= min(1, k.host.config.Slots.Count-1) {
		return nil
	}
	can := func(s *engine.Sandbox) bool { return s.CanFit() && !s.Ended() }
	if i := slices.IndexFunc(plain, can); i >= 0 {
		return plain[i]
	}
	return nil
}

func (k *warmPool) outdated() *engine.Sandbox {
	i := slices.IndexFunc(k.slots, func(s *engine.Sandbox) bool {
		return hasPreparedDisk(s) && len(k.recent) == recentMax && k.recent.count(s.Record().Fitted) == 0
	})
	if i < 0 {
		return nil
	}
	return k.slots[i]
}

// After a failure, fit removes these layers from the recent starts, so that it does not repeat. The next start with
// them shows the error or tries again.
func (k *warmPool) fit(ctx context.Context) error {
	s, digests := k.takeUnfitted()
	if s == nil {
		return nil
	}
	touched, err := k.host.fit(ctx, s, digests)
	if err != nil {
		k.mu.Lock()
		k.recent.forget(digests)
		k.mu.Unlock()
	}
	if err != nil && touched {
		k.remove(s)
	} else {
		k.returnWarm(s)
	}
	return err
}

func (k *warmPool) takeUnfitted() (*engine.Sandbox, []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.nextToPrepare()
	k.slots = without(k.slots, s)
	return s, k.recent.favorite()
}

func (k *warmPool) dropUnwanted() {
	k.mu.Lock()
	s := k.outdated()
	k.slots = without(k.slots, s)
	k.mu.Unlock()
	if s != nil {
		k.remove(s)
	}
}

func (k *warmPool) prepared() (slots []*engine.Sandbox) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.slots {
		if hasPreparedDisk(s) {
			slots = append(slots, s)
		}
	}
	return slots
}

// fit prepares a disk in a warm sandbox. An untouched sandbox can go back to the pool after a failure.
func (h *Host) fit(ctx context.Context, s *engine.Sandbox, digests []string) (touched bool, err error) {
	lower, err := h.mountLayers(digests)
	if err == nil {
		err = h.points.at("fit.disk")
	}
	if err == nil {
		err = h.pool.CreateSpare(s.Slot)
	}
	if err != nil {
		return false, errors.Join(err, h.pool.DeleteSpare(ctx, s.Slot))
	}
	if err := h.points.at("fit.mount"); err != nil {
		return true, err
	}
	fitting := engine.Fitting{Layers: digests, Limits: wire.GuestLimits{Processes: processesMax}}
	if err := h.engine.Fit(ctx, s, lower, h.pool.SpareDisk(s.Slot), h.pool.CountersOf(h.pool.SpareDisk(s.Slot)), fitting); err != nil {
		return true, err
	}
	return true, h.points.at("fit.ready")
}
