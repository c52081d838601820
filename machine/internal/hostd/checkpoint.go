package hostd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/pool"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	thenPaused  = "paused"
	thenRunning = "running"

	// An image exceeds the guest's memory by at most this much, for kernel state and metadata.
	imageSlack  = 64 << 20
	unpauseTime = 30 * time.Second
)

// checkpoint captures memory and disk at one instant. After a failure it resumes the guest and removes its files.
func (h *Host) checkpoint(ctx context.Context, r wire.CheckpointRequest) (wire.CheckpointInfo, error) {
	if r.FromDisk != "" {
		return h.captureDisk(ctx, r)
	}
	s, err := h.runningMachine(r.Fence)
	if err != nil {
		return wire.CheckpointInfo{}, err
	}
	owner := r.Owner()
	if r.Into != nil {
		owner = r.Into.Owner()
	}
	if m, ok := h.finishedBefore(s, owner, r); ok {
		return h.withCounters(m.info(), s), nil
	}
	if !r.DiskOnly && owner != r.Owner() && h.refusesEngine(s.Record().Engine) {
		return wire.CheckpointInfo{}, &refusal{code: "checkpoint_incompatible", message: memoryRefusals[wire.RefusedEngineRefused],
			details: map[string]any{"why": wire.RefusedEngineRefused, "subject": r.Subject}}
	}
	if !r.DiskOnly {
		// The memory restores only under the engine and agent of the machine's start, so both must be stored until the
		// checkpoint names them.
		release, err := h.engine.Hold(s.Record().Engine, s.Record().AgentSHA256)
		if err != nil {
			return wire.CheckpointInfo{}, because("checkpoint_incompatible", "What the machine runs on is not kept on this computer", err)
		}
		defer release()
	}
	m, err := h.capture(ctx, s, owner, r)
	if err != nil {
		obstacle := obstacleOf(err)
		err = errors.Join(err, h.resumeAfterFailure(s), h.removeCheckpoint(owner, r.CheckpointID))
		if obstacle != "" {
			return wire.CheckpointInfo{}, &refusal{code: "checkpoint_failed", message: "An open file that was removed cannot be saved",
				details: map[string]any{"obstacle": obstacle}, cause: err}
		}
		return wire.CheckpointInfo{}, because("checkpoint_failed", "The checkpoint could not be written", err)
	}
	return h.withCounters(m.info(), s), h.points.at("checkpoint.answer")
}

// withCounters adds the machine's usage, because the caller may be unable to ask for it after the machine's end.
func (h *Host) withCounters(info wire.CheckpointInfo, s *engine.Sandbox) wire.CheckpointInfo {
	if counters, err := h.countersOf(s); err == nil {
		info.Counters = &counters
	}
	return info
}

// finishedBefore recognizes a checkpoint that an earlier hostd finished but did not answer. It is reused only if the
// guest is in the requested state.
func (h *Host) finishedBefore(s *engine.Sandbox, owner string, r wire.CheckpointRequest) (manifest, bool) {
	m, err := h.readManifest(owner, r.CheckpointID)
	if err != nil || m.OperationID != r.OperationID || m.Fence != r.Fence.Fence {
		return m, false
	}
	state := s.Record().Claim.State
	return m, (r.Then == thenPaused) == (state == engine.Paused)
}

func (h *Host) capture(ctx context.Context, s *engine.Sandbox, owner string, r wire.CheckpointRequest) (manifest, error) {
	record := s.Record()
	dir, err := h.prepareCheckpoint(ctx, s, owner, r)
	if err != nil {
		return manifest{}, err
	}
	group := h.groups.Get(s.Slot)
	frozen, err := group.Frozen()
	if err != nil {
		return manifest{}, err
	}
	if frozen { // a frozen sandbox answers no request, not even on its control socket
		if err := group.Thaw(); err != nil {
			return manifest{}, err
		}
	}
	pausedMS, err := h.captureInstant(ctx, s, dir, owner, r)
	if err != nil {
		return manifest{}, err
	}
	if frozen && r.Then == thenRunning {
		if err := group.Freeze(); err != nil {
			return manifest{}, err
		}
	}
	m := manifest{Version: manifestVersion, Owner: owner, CheckpointID: r.CheckpointID, OperationID: r.OperationID,
		Epoch: record.Claim.Epoch, Fence: r.Fence.Fence, DiskOnly: r.DiskOnly, Layers: record.Claim.Layers, CreatedAt: stamp(time.Now()), PausedMS: pausedMS,
		Resources: wire.Resources{CPUMillis: record.Size.CPUMillis, MemoryMiB: record.Size.MemoryMiB, DiskGiB: record.Claim.DiskGiB}}
	if !r.DiskOnly {
		m.EngineKind, m.Engine, m.SpecVersion, m.Processor = wire.EngineGVisor, record.Engine, record.SpecVersion, h.processor.features
		m.AgentSHA256, m.Protocol = record.AgentSHA256, record.AgentProtocol()
		if owner == r.Owner() {
			m.Address = record.Address
		}
	}
	return h.finishCheckpoint(ctx, dir, m)
}

func (h *Host) prepareCheckpoint(ctx context.Context, s *engine.Sandbox, owner string, r wire.CheckpointRequest) (string, error) {
	record := s.Record()
	if owner != r.Owner() {
		if err := h.pool.EnsureWorkspace(owner, record.Claim.DiskGiB); err != nil {
			return "", err
		}
	}
	if err := h.removeCheckpoint(owner, r.CheckpointID); err != nil {
		return "", err
	}
	dir := h.pool.CheckpointDir(owner, r.CheckpointID)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if err := h.points.at("checkpoint.flush"); err != nil {
		return "", err
	}
	if err := h.flush(h.pool.DiskPath(r.Owner(), record.Claim.Disk), owner, dir); err != nil {
		return "", err
	}
	// Unwritten data is not yet counted as used, so the flush comes before the checks.
	if r.ThenBlank {
		if err := h.checkBlankCapacity(r.Owner(), record.Claim.DiskGiB); err != nil {
			return "", err
		}
	}
	return dir, h.checkCheckpointSpace(s, owner != r.Owner() || r.Then == thenRunning, r.DiskOnly)
}

// flush writes data before the pause, so that the snapshot in the pause has little to write. It makes a temporary
// snapshot, because a sync would also write all other workspaces' data (decision 77).
func (h *Host) flush(disk, owner, dir string) error {
	thrown := filepath.Join(dir, diskName)
	if err := h.pool.SnapshotDisk(disk, owner, thrown, true); err != nil {
		return err
	}
	return h.pool.DeleteSubvolume(thrown)
}

// checkCheckpointSpace lets a suspend use the pool's reserve, but no copy.
func (h *Host) checkCheckpointSpace(s *engine.Sandbox, isCopy, diskOnly bool) error {
	_, memory, _, err := h.groups.Get(s.Slot).Stats()
	if err != nil {
		return err
	}
	if diskOnly {
		memory = 0
	}
	_, free, reserve, err := h.pool.Usage()
	if err != nil {
		return err
	}
	if isCopy {
		free -= reserve
	}
	if free < memory+imageSlack {
		return because("no_space", "", unix.ENOSPC)
	}
	return nil
}

func (h *Host) captureInstant(ctx context.Context, s *engine.Sandbox, dir, owner string, r wire.CheckpointRequest) (pausedMS int64, err error) {
	claim := s.Record().Claim
	if err := h.points.at("checkpoint.pause"); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := h.engine.Pause(ctx, s); err != nil {
		return 0, err
	}
	if err := h.points.at("checkpoint.save"); err != nil {
		return 0, err
	}
	if !r.DiskOnly {
		if err := h.save(ctx, s, dir); err != nil {
			return 0, err
		}
	}
	if err := h.points.at("checkpoint.snapshot"); err != nil {
		return 0, err
	}
	// The snapshot waits for the save: the sandbox writes dirty pages of mapped files to the disk during the save.
	if err := h.pool.SnapshotDisk(h.pool.DiskPath(claim.Owner, claim.Disk), owner, filepath.Join(dir, diskName), true); err != nil {
		return 0, err
	}
	if r.Then == thenPaused {
		return 0, nil
	}
	if err := h.points.at("checkpoint.resume"); err != nil {
		return 0, err
	}
	if err := h.engine.Unpause(ctx, s); err != nil {
		return 0, err
	}
	return time.Since(began).Milliseconds(), nil
}

func (h *Host) save(ctx context.Context, s *engine.Sandbox, dir string) error {
	size := s.Record().Size
	if err := h.engine.Boost(s, size); err != nil {
		return err
	}
	err := h.engine.Save(ctx, s, dir)
	return errors.Join(saveError(err), h.engine.Resize(s, size))
}

// finishCheckpoint syncs all data, then writes the manifest. The manifest makes the checkpoint valid in one step.
func (h *Host) finishCheckpoint(ctx context.Context, dir string, m manifest) (manifest, error) {
	if err := h.points.at("checkpoint.sync"); err != nil {
		return m, err
	}
	parts := engine.ImageFiles
	if m.DiskOnly {
		parts = nil
	}
	for _, name := range parts {
		// The file is sealed because the sandbox that wrote it may run on and belong to a guest (decision 78).
		if err := pool.SealFile(filepath.Join(dir, name)); err != nil {
			return m, err
		}
	}
	disk := make(chan error, 1)
	go func() { // in parallel with the digests, which take longer
		bytes, err := h.pool.ReferencedBytes(filepath.Join(dir, diskName))
		m.DiskBytes = &bytes
		disk <- err
	}()
	digests, err := h.digestParts(ctx, dir, parts)
	if err = errors.Join(err, <-disk); err != nil {
		return m, err
	}
	m.Parts = digests
	if m.DiskUUID, err = subvolumeUUID(filepath.Join(dir, diskName)); err != nil {
		return m, err
	}
	for _, p := range m.Parts {
		m.SizeBytes += p.StoredBytes
	}
	if err := h.points.at("checkpoint.manifest"); err != nil {
		return m, err
	}
	if err := pool.SyncDir(dir); err != nil {
		return m, err
	}
	return m, h.writeManifest(dir, m)
}

// resumeAfterFailure has its own time limit, because the caller's deadline may have passed.
func (h *Host) resumeAfterFailure(s *engine.Sandbox) error {
	if s.Ended() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), unpauseTime)
	defer cancel()
	return h.engine.Unpause(ctx, s)
}

// saveError finds the errno in the error's text, because the sandbox reports it only there.
func saveError(err error) error {
	if err == nil {
		return nil
	}
	for text, errno := range map[string]error{"no space left": unix.ENOSPC, "disk quota exceeded": unix.EDQUOT} {
		if containsFold(err.Error(), text) {
			return errors.Join(err, errno)
		}
	}
	return err
}
