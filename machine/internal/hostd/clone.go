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

// The source is verified before the copy, so that a damaged checkpoint is not copied.
func (h *Host) clone(ctx context.Context, r wire.CloneRequest) (wire.CheckpointInfo, error) {
	if m, err := h.readManifest(r.Owner(), r.CheckpointID); err == nil && m.OperationID == r.OperationID && m.Fence == r.Fence.Fence {
		return m.info(), nil
	}
	if err := h.points.at("clone.verify"); err != nil {
		return wire.CheckpointInfo{}, because("checkpoint_failed", "The checkpoint could not be copied", err)
	}
	source := h.pool.CheckpointDir(r.Source.Owner(), r.SourceCheckpointID)
	m, err := h.readManifest(r.Source.Owner(), r.SourceCheckpointID)
	if err != nil {
		return wire.CheckpointInfo{}, err
	}
	release, err := h.verifyForClone(ctx, r, source, m)
	if err != nil {
		return wire.CheckpointInfo{}, err
	}
	defer release()
	m.Owner, m.CheckpointID, m.OperationID, m.Fence = r.Owner(), r.CheckpointID, r.OperationID, r.Fence.Fence
	m.CreatedAt = stamp(time.Now())
	if r.Owner() != r.Source.Owner() {
		m.Address = ""
	}
	if r.DiskOnly {
		m = m.withoutMemory()
	}
	if m, err = h.copyCheckpoint(source, m); err != nil {
		err = errors.Join(err, h.removeCheckpoint(r.Owner(), r.CheckpointID))
		return wire.CheckpointInfo{}, because("checkpoint_failed", "The checkpoint could not be copied", err)
	}
	if !m.DiskOnly && m.Owner != r.Source.Owner() {
		h.warm.keep(h.pool.CheckpointDir(r.Owner(), r.CheckpointID), source)
	}
	return m.info(), h.points.at("clone.answer")
}

// verifyForClone checks only the disk if no memory is copied, so that damaged memory does not prevent access to the
// disk. A fork is refused if its memory cannot be restored here. A copy within the workspace is permitted, because its
// memory may become restorable.
func (h *Host) verifyForClone(ctx context.Context, r wire.CloneRequest, source string, m manifest) (release func(), err error) {
	if r.DiskOnly || m.DiskOnly {
		return func() {}, h.verifyDisk(source, m)
	}
	if err := h.verifyContent(ctx, source, m); err != nil {
		return nil, h.damaged(m, err)
	}
	release, err = h.holdPrograms(m)
	if err != nil && r.Owner() == r.Source.Owner() {
		return func() {}, nil
	}
	return release, err
}

func (h *Host) copyCheckpoint(source string, m manifest) (manifest, error) {
	if err := h.pool.EnsureWorkspace(m.Owner, m.Resources.DiskGiB); err != nil {
		return m, err
	}
	if err := h.removeCheckpoint(m.Owner, m.CheckpointID); err != nil {
		return m, err
	}
	dir := h.pool.CheckpointDir(m.Owner, m.CheckpointID)
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
	if err := h.pool.SnapshotDisk(filepath.Join(source, diskName), m.Owner, filepath.Join(dir, diskName), true); err != nil {
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
