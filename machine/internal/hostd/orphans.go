package hostd

import (
	"context"
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/loopdev"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// sweeper removes an orphan only if two sweeps in a row found it. hostd registers an object of its own in less time.
type sweeper struct {
	mu      sync.Mutex
	seen    map[string]bool
	removed int64
}

// Collection reads every manifest, so only each tenth sweep does it.
const collectSweeps = 10

type orphan struct {
	name   string
	remove func(context.Context) error
}

func (h *Host) orphans() ([]orphan, error) {
	slots, err := h.engine.Orphans()
	if err != nil {
		return nil, err
	}
	var found []orphan
	for _, slot := range slots {
		found = append(found, orphan{"slot " + slot, func(ctx context.Context) error { return h.engine.RemoveOrphan(ctx, slot) }})
	}
	spares, err := h.straySpares()
	if err != nil {
		return nil, err
	}
	found = append(found, spares...)
	links, err := h.router.Strays()
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		found = append(found, orphan{link.Name, func(context.Context) error { return link.Remove() }})
	}
	loops, err := loopdev.Below(h.config.DataDir)
	if err != nil {
		return nil, err
	}
	for number, file := range loops {
		if !h.ownsLoop(file) {
			found = append(found, orphan{fmt.Sprintf("loop device %d of %s", number, file), func(context.Context) error { return loopdev.Detach(number) }})
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].name < found[j].name })
	return found, nil
}

func (h *Host) straySpares() (found []orphan, err error) {
	names, err := h.pool.ListSpares()
	for _, name := range names {
		if !h.engine.Has(name) {
			found = append(found, orphan{"spare disk " + name, func(ctx context.Context) error { return h.pool.DeleteSpare(ctx, name) }})
		}
	}
	return found, err
}

// ownsLoop recognizes loop devices of the pool and of layers, which detach themselves with their last mount.
func (h *Host) ownsLoop(file string) bool {
	file = strings.TrimSuffix(file, " (deleted)")
	return file == h.config.Pool.Image || filepath.Dir(file) == filepath.Clean(h.config.LayersDir)
}

func (h *Host) leftovers(context.Context) (wire.Leftovers, error) {
	found, err := h.orphans()
	answer := wire.Leftovers{Found: []string{}}
	for _, one := range found {
		answer.Found = append(answer.Found, one.name)
	}
	h.sweeper.mu.Lock()
	defer h.sweeper.mu.Unlock()
	answer.RemovedTotal = h.sweeper.removed
	return answer, err
}

func (h *Host) sweepOrphans(ctx context.Context) {
	for sweep := 1; ctx.Err() == nil; sweep++ {
		wait(ctx, nil, time.Duration(h.config.SweepSeconds)*time.Second)
		if ctx.Err() != nil {
			return
		}
		h.sweepOnce(ctx)
		if sweep%collectSweeps != 0 {
			continue
		}
		if err := h.collect(ctx); err != nil {
			h.log.Error("not all unneeded programs could be removed", "error", err)
		}
	}
}

func (h *Host) sweepOnce(ctx context.Context) {
	h.boundMemory()
	h.balance()
	found, err := h.orphans()
	if err != nil {
		h.log.Error("orphans cannot be searched", "error", err)
		return
	}
	seen := map[string]bool{}
	for _, one := range found {
		if !h.sweeper.seen[one.name] {
			seen[one.name] = true
			continue
		}
		if err := h.removeStray(ctx, one); err != nil {
			h.log.Error("an orphan cannot be removed", "what", one.name, "error", err)
			seen[one.name] = true
		}
	}
	h.sweeper.seen = seen
}

func (h *Host) removeStray(ctx context.Context, one orphan) error {
	ctx, cancel := context.WithTimeout(ctx, verbTime)
	defer cancel()
	if err := one.remove(ctx); err != nil {
		return err
	}
	h.log.Warn("removed an orphan", "what", one.name)
	h.sweeper.mu.Lock()
	defer h.sweeper.mu.Unlock()
	h.sweeper.removed++
	return nil
}
