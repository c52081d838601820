package hostd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// The disk is new for this attempt. So changes by a guest that runs before the caller commits are not permanent.
func (h *Host) start(ctx context.Context, r wire.StartRequest) (wire.Machine, error) {
	if s, err := h.alreadyMade(ctx, r.Fence); s != nil || err != nil {
		return h.describeOr(s, err)
	}
	return h.boot(ctx, bootRequest{StartRequest: r})
}

type bootRequest struct {
	wire.StartRequest
	checkpoint    *manifest // the machine begins with this checkpoint's disk
	renewIdentity bool
}

func (h *Host) boot(ctx context.Context, r bootRequest) (wire.Machine, error) {
	if current := h.engine.Version(); h.refusesEngine(current) {
		return wire.Machine{}, &refusal{code: "start_failed", message: "The engine of this computer may start nothing any more",
			cause: fmt.Errorf("%s is in engines_refused", current), details: map[string]any{"why": wire.RefusedEngineRefused}}
	}
	release, err := h.admit(r.Owner(), r.Resources)
	if err != nil {
		return wire.Machine{}, err
	}
	defer release()
	lower, err := h.mountLayers(layersBelow(r.StartRequest))
	if err != nil {
		return wire.Machine{}, err
	}
	if err := h.points.at("start.disk"); err != nil {
		return wire.Machine{}, because("start_failed", "The disk could not be made", err)
	}
	disk := attemptDisk(r.Fence)
	s, err := h.takeFitted(ctx, r)
	if s == nil && err == nil {
		err = h.makeDisk(ctx, r, disk)
	}
	if err != nil {
		return wire.Machine{}, because("start_failed", "The disk could not be made", err)
	}
	if r.Tree != "" {
		lower = underTree(h.pool.DiskPath(r.Owner(), disk), lower)
	}
	if s, err = h.claimSlot(ctx, r, s, lower, disk); err != nil {
		return wire.Machine{}, because("start_failed", "The machine did not start", errors.Join(err, h.discard(s, r.Owner(), disk)))
	}
	h.enlist(s)
	return h.describe(s), h.points.at("start.answer")
}

// takeFitted returns a sandbox with a prepared disk, or nil if none matches the disk that the workspace begins with.
func (h *Host) takeFitted(ctx context.Context, r bootRequest) (*engine.Sandbox, error) {
	if r.checkpoint != nil || r.FullCopy || r.Tree != "" || r.FromLayer != nil || r.FromDisk != "" || h.pool.HasWorkspace(r.Owner()) {
		return nil, nil
	}
	h.stock.noteStart(r.Layers)
	if err := h.pool.Admit(); err != nil {
		return nil, err
	}
	return h.stock.takePrepared(ctx, sizeOf(r.Resources), r.Layers), nil
}

// claimSlot claims the prepared sandbox s, or any warm one if s is nil. After an error the caller discards the returned
// sandbox.
func (h *Host) claimSlot(ctx context.Context, r bootRequest, s *engine.Sandbox, lower []string, disk string) (*engine.Sandbox, error) {
	if err := h.points.at("start.slot"); err != nil {
		return s, err
	}
	size, fitted := sizeOf(r.Resources), s != nil
	mount := func() error { return h.pool.TakeSpare(s.Slot, r.Owner(), disk, r.Resources.DiskGiB) }
	if s == nil {
		var err error
		if s, err = h.stock.takeWarm(ctx, size); err != nil {
			return nil, err
		}
		mount = func() error { return h.mountDisk(s, lower, h.pool.DiskPath(r.Owner(), disk)) }
	}
	claim := h.newClaim(r.Fence, disk, layersBelow(r.StartRequest), r.Resources)
	claim.OOMKills = h.oomKills(s)
	err := s.Update(func(record *engine.Record) { record.Kind, record.Size, record.Claim = engine.KindMachine, size, &claim })
	if err := cmp.Or(err, h.engine.Resize(s, size), h.points.at("start.mount")); err != nil {
		return s, err
	}
	if err := errors.Join(mount(), h.engine.SetGuestDiskSize(s, int64(r.Resources.DiskGiB)<<30)); err != nil {
		return s, err
	}
	if err := h.giveVolumes(s, r.Volumes); err != nil {
		return s, err
	}
	if err := h.applyEgress(ctx, s, r.Egress); err != nil {
		return s, err
	}
	if err := h.points.at("start.claim"); err != nil {
		return s, err
	}
	incarnation := h.incarnation(r.Fence, r.Hostname, r.Resources, r.renewIdentity)
	incarnation.Volumes = s.Record().Claim.Volumes
	refused, err := h.engine.ClaimAgent(ctx, s, incarnation)
	if err := cmp.Or(err, noteRefused(s, refused)); err != nil {
		return s, err
	}
	if err := h.points.at("start.commit"); err != nil {
		return s, err
	}
	if err := h.handOver(s); err != nil {
		return s, err
	}
	if !fitted { // a prepared disk already has its limit
		if err := h.setGuestLimit(r.Owner(), disk, r.Resources.DiskGiB, r.knownBytes()); err != nil {
			return s, err
		}
	}
	if r.Connect {
		if err := h.allowPackets(s); err != nil {
			return s, err
		}
	}
	return s, s.Update(func(record *engine.Record) { record.Claim.State, record.Claim.Connected = engine.Running, r.Connect })
}

// alreadyMade finds the machine of a repeated attempt: an earlier hostd may have ended between making it and answering.
func (h *Host) alreadyMade(ctx context.Context, f wire.Fence) (*engine.Sandbox, error) {
	if s := h.machine(f.Owner()); s != nil {
		claim := s.Record().Claim
		if claim.Epoch == f.Epoch && claim.Fence == f.Fence && claim.OperationID == f.OperationID {
			return s, nil
		}
		return nil, refuse("already_running", "The workspace has a machine here")
	}
	// A disk must not be read while a machine is made from it, so its reader is ended.
	return nil, errors.Join(h.endDiskReader(f.Owner()), h.clearDead(ctx, f.Owner()))
}

func (h *Host) describeOr(s *engine.Sandbox, err error) (wire.Machine, error) {
	if err != nil {
		return wire.Machine{}, err
	}
	return h.describe(s), nil
}

func layersBelow(r wire.StartRequest) []string {
	if r.FullCopy {
		return []string{}
	}
	return r.Layers
}

// mountLayers returns the mount points topmost first, as an overlay expects.
func (h *Host) mountLayers(digests []string) ([]string, error) {
	if len(digests) == 0 {
		return []string{h.reads.starter.Empty()}, nil
	}
	var points []string
	for _, digest := range digests {
		point, err := h.layers.Mount(digest)
		if errors.Is(err, os.ErrNotExist) {
			return nil, because("layer_missing", "A template layer is not on this computer", err)
		}
		if err != nil {
			return nil, because("start_failed", "A template layer could not be mounted", err)
		}
		points = append(points, point)
	}
	slices.Reverse(points)
	return points, nil
}

func (h *Host) makeDisk(ctx context.Context, r bootRequest, disk string) error {
	if err := h.raiseLimitForAssembly(r.Owner(), r.Resources.DiskGiB); err != nil {
		return err
	}
	path := h.pool.DiskPath(r.Owner(), disk)
	// Only an interrupted attempt can have left a disk of this name, so it is deleted.
	if err := h.pool.DeleteSubvolume(path); err != nil {
		return err
	}
	if r.checkpoint != nil {
		return h.diskOfCheckpoint(*r.checkpoint, path)
	}
	if r.Tree != "" {
		return h.diskFromTree(r.Owner(), r.Tree, path)
	}
	if r.FromLayer != nil {
		return h.diskFromLayer(*r.FromLayer, r.Owner(), path)
	}
	if r.FromDisk == "" {
		if err := h.checkBlankCapacity(r.Owner(), r.Resources.DiskGiB); err != nil {
			return err
		}
		if err := h.pool.CreateDisk(r.Owner(), disk); err != nil || !r.FullCopy {
			return err
		}
		return h.fillDisk(ctx, r.Layers, path)
	}
	from := h.pool.DiskPath(r.Owner(), r.FromDisk)
	if _, err := os.Stat(from); errors.Is(err, os.ErrNotExist) {
		return refuse("not_found", "The disk to continue from is not here")
	}
	return h.pool.SnapshotDisk(from, r.Owner(), path, false)
}

// discard has its own time limit, because the caller's deadline may have passed.
func (h *Host) discard(s *engine.Sandbox, workspace, disk string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if s != nil {
		if err := h.engine.Remove(ctx, s); err != nil {
			h.mu.Lock()
			h.dead[workspace] = append(h.dead[workspace], s)
			h.mu.Unlock()
			return err
		}
		if err := h.pool.DeleteSpare(ctx, s.Slot); err != nil {
			return err
		}
	}
	return h.pool.DeleteSubvolume(h.pool.DiskPath(workspace, disk))
}

// knownBytes returns the size of a copied tree. Measuring the copy would read every file.
func (r bootRequest) knownBytes() *int64 {
	if r.Tree == "" {
		return nil
	}
	return &r.TreeBytes
}

func (h *Host) newClaim(f wire.Fence, disk string, layers []string, resources wire.Resources) engine.Claim {
	return engine.Claim{Owner: f.Owner(), OperationID: f.OperationID, Epoch: f.Epoch, Fence: f.Fence, State: engine.Assembling,
		Disk: disk, Layers: layers, DiskGiB: resources.DiskGiB, StartedAt: stamp(time.Now())}
}

func (h *Host) incarnation(f wire.Fence, hostname string, resources wire.Resources, renew bool) wire.Incarnation {
	return wire.Incarnation{WorkspaceID: f.ID, Epoch: f.Epoch, Protocol: wire.AgentProtocol, Hostname: hostname, RenewIdentity: renew,
		Limits: &wire.GuestLimits{MemoryBytes: int64(resources.MemoryMiB) << 20, Processes: processesMax, OutputBytes: min(retainedOutputMax, int64(resources.DiskGiB)<<30/4)}}
}

func (h *Host) oomKills(s *engine.Sandbox) int64 {
	_, _, kills, err := h.groups.Get(s.Slot).Stats()
	if err != nil {
		return 0
	}
	return kills
}

// attemptDisk is unique for each attempt, because no two attempts have the same fencing token.
func attemptDisk(f wire.Fence) string { return fmt.Sprintf("e%d.%d", f.Epoch, f.Fence) }

func sizeOf(r wire.Resources) engine.Size {
	return engine.Size{CPUMillis: r.CPUMillis, MemoryMiB: r.MemoryMiB}
}
