package hostd

import (
	"context"
	"errors"
	"slices"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// recentStarts are the layers of the last machines that began with a blank disk, the latest last. What was started lately is what will be.
type recentStarts [][]string

// recentMax bounds how long a slot stays fitted for a template that nobody starts any more.
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

// favorite is what was started most often, and latest among those: nil before the first start.
func (r recentStarts) favorite() (best []string) {
	for _, one := range slices.Backward(r) {
		if r.count(one) > r.count(best) {
			best = one
		}
	}
	return best
}

func isFitted(s *engine.Sandbox) bool { return len(s.Record().Fitted) > 0 }

// noteStart remembers what a machine begins with.
func (k *stock) noteStart(digests []string) {
	if len(digests) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.recent.add(digests)
	k.poke()
}

// takeFitted gives a slot that waits with a blank disk over the layers, or nil.
func (k *stock) takeFitted(ctx context.Context, size engine.Size, digests []string) *engine.Sandbox {
	if len(digests) == 0 {
		return nil
	}
	return k.takeWaiting(ctx, size, digests)
}

// unfitted is a slot that is to be fitted. One, where there are more, stays without a disk: for other templates, and disks that are not
// blank.
func (k *stock) unfitted() *engine.Sandbox {
	if k.recent.favorite() == nil {
		return nil
	}
	var plain []*engine.Sandbox
	for _, s := range k.slots {
		if !isFitted(s) {
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

// unwanted is a slot that is fitted for what nobody starts any more.
func (k *stock) unwanted() *engine.Sandbox {
	i := slices.IndexFunc(k.slots, func(s *engine.Sandbox) bool {
		return isFitted(s) && len(k.recent) == recentMax && k.recent.count(s.Record().Fitted) == 0
	})
	if i < 0 {
		return nil
	}
	return k.slots[i]
}

// fit gives a waiting slot the disk that the next machine will most likely begin with. Where that fails, the next start of the same layers
// gives the reason, or another try.
func (k *stock) fit(ctx context.Context) error {
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
		k.putBack(s)
	}
	return err
}

func (k *stock) takeUnfitted() (*engine.Sandbox, []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.unfitted()
	k.slots = without(k.slots, s)
	return s, k.recent.favorite()
}

// dropUnwanted removes the slot that is fitted for what nobody starts any more.
func (k *stock) dropUnwanted() {
	k.mu.Lock()
	s := k.unwanted()
	k.slots = without(k.slots, s)
	k.mu.Unlock()
	if s != nil {
		k.remove(s)
	}
}

// fitted are the slots that wait with a disk.
func (k *stock) fitted() (slots []*engine.Sandbox) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.slots {
		if isFitted(s) {
			slots = append(slots, s)
		}
	}
	return slots
}

// fit says with an error whether the slot is still as it was.
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
