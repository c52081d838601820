package hostd

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-dev/berth/machine/internal/pool"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// clone copies a checkpoint, to another workspace or beside itself, without copying its bytes. What is copied was verified first, so that a bad image
// does not spread.
func (h *Host) clone(ctx context.Context, r wire.CloneRequest) (wire.CheckpointInfo, error) {
	if m, err := h.readManifest(r.WorkspaceID, r.CheckpointID); err == nil && m.OperationID == r.OperationID && m.Fence == r.Fence.Fence {
		return m.info(), nil
	}
	if err := h.points.at("clone.verify"); err != nil {
		return wire.CheckpointInfo{}, because("checkpoint_failed", "The checkpoint could not be copied", err)
	}
	source := h.pool.CheckpointDir(r.SourceWorkspaceID, r.SourceCheckpoint)
	m, err := h.readManifest(r.SourceWorkspaceID, r.SourceCheckpoint)
	if err == nil {
		err = h.verifyContent(ctx, source, m)
	}
	if err != nil {
		return wire.CheckpointInfo{}, err
	}
	// One that cannot be restored here is copied all the same: its disk is whole.
	if release, err := h.engine.Hold(m.Engine, m.AgentSHA256); err == nil {
		defer release()
	}
	m.WorkspaceID, m.CheckpointID, m.OperationID, m.Fence = r.WorkspaceID, r.CheckpointID, r.OperationID, r.Fence.Fence
	m.CreatedAt = stamp(time.Now())
	if r.DiskOnly {
		m = m.withoutMemory()
	}
	if m, err = h.copyCheckpoint(source, m); err != nil {
		err = errors.Join(err, h.removeCheckpoint(r.WorkspaceID, r.CheckpointID))
		return wire.CheckpointInfo{}, because("checkpoint_failed", "The checkpoint could not be copied", err)
	}
	return m.info(), h.points.at("clone.answer")
}

// copyCheckpoint keeps the digests and records the copies' own inodes. A source that is deleted meanwhile makes it fail.
func (h *Host) copyCheckpoint(source string, m manifest) (manifest, error) {
	if err := h.pool.EnsureWorkspace(m.WorkspaceID, m.Resources.DiskGiB); err != nil {
		return m, err
	}
	if err := h.removeCheckpoint(m.WorkspaceID, m.CheckpointID); err != nil {
		return m, err
	}
	dir := h.pool.CheckpointDir(m.WorkspaceID, m.CheckpointID)
	if err := cmp.Or(os.Mkdir(dir, 0o700), h.points.at("clone.parts")); err != nil {
		return m, err
	}
	copies := make([]part, len(m.Parts))
	for i, original := range m.Parts {
		copied, err := clonePart(filepath.Join(dir, original.Name), filepath.Join(source, original.Name), original)
		if err != nil {
			return m, notFoundIfGone(err)
		}
		copies[i] = copied
	}
	m.Parts = copies
	if err := h.points.at("clone.disk"); err != nil {
		return m, err
	}
	if err := h.pool.SnapshotDisk(filepath.Join(source, diskName), m.WorkspaceID, filepath.Join(dir, diskName), true); err != nil {
		return m, notFoundIfGone(err)
	}
	var err error
	if m.DiskUUID, err = subvolumeUUID(filepath.Join(dir, diskName)); err != nil {
		return m, err
	}
	if err := cmp.Or(h.points.at("clone.manifest"), pool.SyncDir(dir)); err != nil {
		return m, err
	}
	return m, h.writeManifest(dir, m)
}

func clonePart(target, source string, original part) (part, error) {
	if err := pool.CloneFile(target, source); err != nil {
		return part{}, err
	}
	if err := pool.FlushFile(target); err != nil {
		return part{}, err
	}
	copied, err := statPart(target)
	if err == nil && copied.Size != original.Size {
		err = errors.New("the source changed while it was copied")
	}
	copied.Name, copied.Digest, copied.StoredBytes = original.Name, original.Digest, original.StoredBytes
	return copied, err
}

func notFoundIfGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return because("not_found", "The checkpoint was deleted meanwhile", err)
	}
	return err
}
