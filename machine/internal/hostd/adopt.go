package hostd

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const settleTime = 10 * time.Second

// adopt takes over the sandboxes that an earlier hostd left running, and reports machines that ended while nobody looked. What one of
// them refuses is logged: all the others need hostd.
func (h *Host) adopt(ctx context.Context) error {
	alive, gone, err := h.engine.Adopt(ctx)
	if err != nil {
		return err
	}
	for _, left := range gone {
		if err := h.bury(left); err != nil {
			h.log.Error("the disk of an unfinished attempt is not removed", "slot", left.Record.Slot, "error", err)
		}
	}
	var settling sync.WaitGroup
	for _, s := range alive {
		if s.Record().Kind != engine.KindMachine {
			h.stock.noteStart(s.Record().Fitted)
			h.keepWaiting(s)
			continue
		}
		h.stock.noteStart(s.Record().Claim.Layers)
		// A checkpoint that was cut short may have left it without its processor limit.
		if err := h.handOver(s); err != nil && !s.Ended() {
			h.log.Error("a machine may be without its limits", "slot", s.Slot, "error", err)
		}
		h.enlist(s)
		settling.Add(1)
		go func() {
			defer settling.Done()
			h.settle(ctx, s)
		}()
	}
	settling.Wait()
	return nil
}

// keepWaiting puts what waits ahead of need back in stock, unless it waits with a size that is not asked for any more: it would count
// as ready and never fit.
func (h *Host) keepWaiting(s *engine.Sandbox) {
	size := s.Record().Size
	if h.refusesEngine(s.Record().Engine) {
		h.log.Info("removing a slot of an engine that is refused", "slot", s.Slot)
		h.stock.remove(s)
		return
	}
	if size.MemoryMiB == h.config.Slots.MemoryMiB && size.CPUMillis == h.config.Slots.CPUMillis {
		h.stock.put(s)
		return
	}
	h.log.Info("removing a slot of another size", "slot", s.Slot)
	h.stock.remove(s)
}

// bury throws the disk of an unfinished attempt away, and tells of a machine that had been running. What could not be removed may be
// using its disk: the next verb of its workspace removes it, and the cell asks for what no row names.
func (h *Host) bury(left engine.Leftover) error {
	claim := left.Record.Claim
	if claim == nil {
		return nil
	}
	if left.Stuck != nil {
		h.dead[claim.Owner] = append(h.dead[claim.Owner], left.Stuck)
	}
	if left.Ended {
		h.events.add(wire.Event{Kind: "died", Subject: wire.SubjectOf(claim.Owner), Epoch: claim.Epoch, Fence: claim.Fence, Reason: "killed", At: stamp(time.Now())})
		return nil
	}
	if left.Stuck != nil {
		return nil
	}
	return h.pool.DeleteSubvolume(h.pool.DiskPath(claim.Owner, claim.Disk))
}

// settle finds out whether a guest that was about to be paused is. A sandbox that does not say stays in doubt, and is asked again
// by the verb that needs to know.
func (h *Host) settle(ctx context.Context, s *engine.Sandbox) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if frozen, err := h.groups.Get(s.Slot).Frozen(); err != nil || frozen {
		return // it cannot answer
	}
	if err := h.engine.Settle(ctx, s); err != nil {
		h.log.Error("a machine does not say whether it is paused", "slot", s.Slot, "error", err)
	}
}

// sweepFiles removes half-written checkpoints and disks, and what sweepDeleted and collectPrograms do. Nothing else may run.
func (h *Host) sweepFiles(ctx context.Context) error {
	workspaces, err := h.pool.ListWorkspaces()
	for _, workspace := range workspaces {
		err = errors.Join(err, h.sweepCheckpoints(workspace))
	}
	return errors.Join(err, h.pool.DropHalfMade(ctx), h.dropSpares(ctx), h.layers.SweepMaking(), h.collect(ctx))
}

// dropSpares removes the disks that no slot waits with: what an earlier hostd was making or giving when it ended.
func (h *Host) dropSpares(ctx context.Context) error {
	spares, err := h.pool.ListSpares()
	fitted := h.stock.fitted()
	for _, spare := range spares {
		if !slices.ContainsFunc(fitted, func(s *engine.Sandbox) bool { return s.Slot == spare }) {
			err = errors.Join(err, h.pool.DeleteSpare(ctx, spare))
		}
	}
	return err
}

// collect removes what was needed and is no longer: programs, and what deleted workspaces left.
func (h *Host) collect(ctx context.Context) error {
	return errors.Join(h.collectPrograms(), h.sweepDeleted(ctx))
}

// sweepDeleted ends deletions that were cut short or had to wait for the kernel, and forgets the workspaces.
func (h *Host) sweepDeleted(ctx context.Context) error {
	workspaces, err := h.pool.ListWorkspaces()
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	for _, workspace := range workspaces {
		kept[workspace] = true
	}
	return errors.Join(h.jobs.forgetDeleted(kept, time.Now()), h.pool.EmptyTrash(ctx))
}

func (h *Host) sweepCheckpoints(workspace string) error {
	ids, err := h.pool.ListCheckpoints(workspace)
	if err != nil {
		return err
	}
	for _, id := range ids {
		_, err := os.Lstat(filepath.Join(h.pool.CheckpointDir(workspace, id), manifestName))
		if errors.Is(err, fs.ErrNotExist) {
			if err := h.removeCheckpoint(workspace, id); err != nil {
				return err
			}
		}
		// One whose manifest is broken stays: it may be all that is left of somebody's work, and people may want to look at it.
	}
	return nil
}
