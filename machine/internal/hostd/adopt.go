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

// adopt takes over an earlier hostd's sandboxes. One failure is only logged, because other machines need hostd.
func (h *Host) adopt(ctx context.Context) error {
	alive, gone, err := h.engine.Adopt(ctx)
	if err != nil {
		return err
	}
	for _, left := range gone {
		if err := h.clearUnfinished(left); err != nil {
			h.log.Error("the disk of an unfinished attempt is not removed", "slot", left.Record.Slot, "error", err)
		}
	}
	var settling sync.WaitGroup
	for _, s := range alive {
		if s.Record().Kind != engine.KindMachine {
			h.stock.noteStart(s.Record().Fitted)
			h.returnToPool(s)
			continue
		}
		h.stock.noteStart(s.Record().Claim.Layers)
		// handOver sets the limits again: an interrupted checkpoint may have left the machine without its CPU limit.
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

// A sandbox of a refused engine or another size is removed: it would be counted as ready but match no request.
func (h *Host) returnToPool(s *engine.Sandbox) {
	size := s.Record().Size
	if h.refusesEngine(s.Record().Engine) {
		h.log.Info("removing a warm sandbox of a refused engine", "slot", s.Slot)
		h.stock.remove(s)
		return
	}
	if size.MemoryMiB == h.config.Slots.MemoryMiB && size.CPUMillis == h.config.Slots.CPUMillis {
		h.stock.put(s)
		return
	}
	h.log.Info("removing a warm sandbox of another size", "slot", s.Slot)
	h.stock.remove(s)
}

// clearUnfinished deletes the disk of an attempt that never became a machine. A stuck sandbox may still use its disk,
// so the workspace's next verb removes both.
func (h *Host) clearUnfinished(left engine.RemovedSlot) error {
	claim := left.Record.Claim
	if claim == nil {
		return nil
	}
	if left.Stuck != nil {
		h.dead[claim.Owner] = append(h.dead[claim.Owner], left.Stuck)
	}
	if left.Ended {
		h.events.add(wire.HostEvent{Kind: "died", Subject: wire.SubjectOf(claim.Owner), Epoch: claim.Epoch, Fence: claim.Fence, Reason: "killed", At: stamp(time.Now())})
		return nil
	}
	if left.Stuck != nil {
		return nil
	}
	return h.pool.DeleteSubvolume(h.pool.DiskPath(claim.Owner, claim.Disk))
}

// settle asks the machine whether it is paused, if the earlier hostd ended during a pause. Without an answer the next
// verb asks again.
func (h *Host) settle(ctx context.Context, s *engine.Sandbox) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if frozen, err := h.groups.Get(s.Slot).Frozen(); err != nil || frozen {
		return // a frozen guest cannot answer
	}
	if err := h.engine.Settle(ctx, s); err != nil {
		h.log.Error("a machine does not say whether it is paused", "slot", s.Slot, "error", err)
	}
}

// No verb may run during sweepFiles, because it removes unfinished files.
func (h *Host) sweepFiles(ctx context.Context) error {
	workspaces, err := h.pool.ListWorkspaces()
	for _, workspace := range workspaces {
		err = errors.Join(err, h.sweepCheckpoints(workspace))
	}
	return errors.Join(err, h.pool.DropHalfMade(ctx), h.dropSpares(ctx), h.layers.SweepMaking(), h.collect(ctx))
}

// dropSpares deletes spare disks without a prepared sandbox. An earlier hostd ended while it made or assigned them.
func (h *Host) dropSpares(ctx context.Context) error {
	spares, err := h.pool.ListSpares()
	fitted := h.stock.prepared()
	for _, spare := range spares {
		if !slices.ContainsFunc(fitted, func(s *engine.Sandbox) bool { return s.Slot == spare }) {
			err = errors.Join(err, h.pool.DeleteSpare(ctx, spare))
		}
	}
	return err
}

func (h *Host) collect(ctx context.Context) error {
	return errors.Join(h.collectPrograms(), h.sweepDeleted(ctx))
}

// sweepDeleted repeats deletions that had to wait for the kernel.
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
		// A checkpoint with a broken manifest is not removed, because it may hold the only copy of user data.
	}
	return nil
}
