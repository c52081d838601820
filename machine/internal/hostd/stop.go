package hostd

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/pool"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// After the answer, no process of the machine executes another instruction. Memory and kernel objects are released
// later; a verb that needs this waits for it.
func (h *Host) stop(ctx context.Context, r wire.StopRequest) (wire.Ended, error) {
	var done wire.Ended
	s := h.machine(r.Owner())
	if s != nil && r.MachineEpoch != 0 && s.Record().Claim.Epoch != r.MachineEpoch {
		return done, nil // the stop is late: the machine of its epoch has ended
	}
	if err := h.points.at("stop.kill"); err != nil {
		return done, err
	}
	if s == nil {
		return wire.Ended{Counters: h.last.of(r.Owner())}, h.clearDead(ctx, r.Owner())
	}
	if err := h.killMachine(r.Owner()); err != nil {
		return done, err
	}
	done.Counters = h.last.of(r.Owner())
	// clearAfter removes the rest of the machine when this verb has left the workspace's queue.
	return done, cmp.Or(h.points.at("stop.unmount"), h.points.at("stop.answer"))
}

func (h *Host) endMachine(ctx context.Context, workspace string) error {
	if err := h.killMachine(workspace); err != nil {
		return err
	}
	return h.clearDead(ctx, workspace)
}

// killMachine returns before the processes have ended. clearDead waits for their end.
func (h *Host) killMachine(workspace string) error {
	h.mu.Lock()
	s := h.machines[workspace]
	if s != nil {
		h.stopping[s] = true
	}
	h.mu.Unlock()
	if s == nil {
		return nil
	}
	held, _ := h.countersOf(s) // a failure is reported by noteLast
	err := h.engine.Condemn(s)
	if err == nil {
		h.noteLast(s, held)
	}
	h.mu.Lock()
	delete(h.stopping, s)
	if err == nil {
		delete(h.machines, workspace)
		h.dead[workspace] = append(h.dead[workspace], s)
	}
	h.mu.Unlock()
	if err != nil && s.Ended() {
		h.noticeEnd(s) // noticeEnd ignored the sandbox while it was in h.stopping
	}
	return err
}

func (h *Host) connect(_ context.Context, r wire.Fenced) (struct{}, error) {
	s, err := h.runningMachine(r.Fence)
	if err != nil {
		return struct{}{}, err
	}
	if err := h.allowPackets(s); err != nil {
		return struct{}{}, err
	}
	return struct{}{}, s.Update(func(record *engine.Record) { record.Claim.Connected = true })
}

func (h *Host) allowPackets(s *engine.Sandbox) error {
	if err := h.points.at("connect.network"); err != nil {
		return err
	}
	return h.router.Connect(s.Slot)
}

func (h *Host) unpause(ctx context.Context, r wire.Fenced) (struct{}, error) {
	s, err := h.runningMachine(r.Fence)
	if err != nil {
		return struct{}{}, err
	}
	if err := h.points.at("unpause.resume"); err != nil {
		return struct{}{}, err
	}
	// A frozen sandbox answers no request, not even on its control socket, so it is thawed first.
	if err := h.groups.Get(s.Slot).Thaw(); err != nil {
		return struct{}{}, err
	}
	return struct{}{}, h.engine.Unpause(ctx, s)
}

func (h *Host) freeze(_ context.Context, r wire.Fenced) (struct{}, error) {
	s, err := h.runningMachine(r.Fence)
	if err != nil {
		return struct{}{}, err
	}
	group := h.groups.Get(s.Slot)
	if err := group.Freeze(); err != nil {
		return struct{}{}, err
	}
	go func() { // compression is slow, and no caller waits for it
		if err := group.OfferMemory(); err != nil && !s.Ended() {
			h.log.Warn("the memory of a frozen machine could not be offered", "slot", s.Slot, "error", err)
		}
	}()
	return struct{}{}, nil
}

func (h *Host) thaw(_ context.Context, r wire.Fenced) (struct{}, error) {
	s, err := h.runningMachine(r.Fence)
	if err != nil {
		return struct{}{}, err
	}
	return struct{}{}, h.groups.Get(s.Slot).Thaw()
}

// fence only has to answer: the queue has stored the higher token, and waited for earlier verbs.
func (h *Host) fence(context.Context, wire.Fenced) (struct{}, error) {
	return struct{}{}, h.points.at("fence.write")
}

func (h *Host) deleteDisks(ctx context.Context, r wire.DeleteRequest) (struct{}, error) {
	s := h.machine(r.Owner())
	if err := h.clearDead(ctx, r.Owner()); err != nil { // an ended machine may still have a disk mounted
		return struct{}{}, err
	}
	for _, name := range r.Names {
		if s != nil && s.Record().Claim.Disk == name {
			return struct{}{}, refuse("already_running", "A machine runs on one of these disks")
		}
	}
	for _, name := range r.Names {
		if err := h.pool.DeleteSubvolume(h.pool.DiskPath(r.Owner(), name)); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, nil
}

func (h *Host) deleteCheckpoints(_ context.Context, r wire.DeleteRequest) (struct{}, error) {
	for _, id := range r.Names {
		if err := h.removeCheckpoint(r.Owner(), id); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, nil
}

// removeCheckpoint deletes the manifest first. If hostd ends in between, the next one treats the rest as an orphan.
func (h *Host) removeCheckpoint(workspace, id string) error {
	dir := h.pool.CheckpointDir(workspace, id)
	h.warm.drop(dir)
	if h.readsCheckpoint(workspace, id) {
		if err := h.endDiskReader(workspace); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := os.Remove(filepath.Join(dir, manifestName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := pool.SyncDir(dir); err != nil {
		return err
	}
	if err := h.pool.DeleteSubvolume(filepath.Join(dir, diskName)); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

func (h *Host) deleteSubject(ctx context.Context, r wire.Fenced) (wire.Ended, error) {
	var done wire.Ended
	if err := h.points.at("delete.stop"); err != nil {
		return done, err
	}
	if err := errors.Join(h.endDiskReader(r.Owner()), h.endMachine(ctx, r.Owner())); err != nil {
		return done, err
	}
	done.Counters = h.last.of(r.Owner())
	if err := h.points.at("delete.files"); err != nil {
		return done, err
	}
	if err := h.pool.DeleteWorkspace(r.Owner()); err != nil {
		return done, err
	}
	return done, h.points.at("delete.answer")
}
