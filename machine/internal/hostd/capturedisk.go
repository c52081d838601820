package hostd

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func (h *Host) captureDisk(ctx context.Context, r wire.CheckpointRequest) (wire.CheckpointInfo, error) {
	if h.machine(r.Owner()) != nil {
		return wire.CheckpointInfo{}, refuse("already_running", "A machine may be writing to the disk")
	}
	if m, err := h.readManifest(r.Owner(), r.CheckpointID); err == nil && m.OperationID == r.OperationID && m.Fence == r.Fence.Fence {
		return m.info(), nil
	}
	if err := errors.Join(h.endDiskReader(r.Owner()), h.clearDead(ctx, r.Owner())); err != nil {
		return wire.CheckpointInfo{}, err
	}
	m := manifest{Version: manifestVersion, Owner: r.Owner(), CheckpointID: r.CheckpointID, OperationID: r.OperationID,
		Epoch: r.Epoch, Fence: r.Fence.Fence, DiskOnly: true, Layers: r.Layers, Resources: r.Resources, CreatedAt: stamp(time.Now())}
	m, err := h.snapshotDisk(ctx, r.FromDisk, m)
	if err != nil {
		err = errors.Join(err, h.removeCheckpoint(r.Owner(), r.CheckpointID))
		return wire.CheckpointInfo{}, because("checkpoint_failed", "The checkpoint could not be written", err)
	}
	return m.info(), h.points.at("checkpoint.answer")
}

func (h *Host) snapshotDisk(ctx context.Context, disk string, m manifest) (manifest, error) {
	from := h.pool.DiskPath(m.Owner, disk)
	if _, err := os.Stat(from); errors.Is(err, os.ErrNotExist) {
		return m, refuse("not_found", "The disk is not here")
	}
	if err := h.removeCheckpoint(m.Owner, m.CheckpointID); err != nil {
		return m, err
	}
	dir := h.pool.CheckpointDir(m.Owner, m.CheckpointID)
	if err := cmp.Or(os.Mkdir(dir, 0o700), h.points.at("checkpoint.snapshot")); err != nil {
		return m, err
	}
	if err := h.pool.SnapshotDisk(from, m.Owner, filepath.Join(dir, diskName), true); err != nil {
		return m, err
	}
	return h.finishCheckpoint(ctx, dir, m)
}
