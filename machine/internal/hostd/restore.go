package hostd

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/network"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// restore only reads the checkpoint, so the checkpoint can be restored again after any failure. No packet leaves the
// machine before connect.
func (h *Host) restore(ctx context.Context, r wire.RestoreRequest) (wire.Machine, error) {
	if s, err := h.alreadyMade(ctx, r.Fence); s != nil || err != nil {
		return h.describeOr(s, err)
	}
	if err := h.points.at("restore.verify"); err != nil {
		return wire.Machine{}, because("restore_failed", "The checkpoint could not be restored", err)
	}
	m, err := h.readManifest(sourceOf(r), r.CheckpointID)
	if err != nil {
		return wire.Machine{}, err
	}
	if m.DiskOnly && r.Of != nil {
		return wire.Machine{}, refuse("checkpoint_incompatible", "The checkpoint holds no memory: a machine starts from it")
	}
	if m.DiskOnly {
		return h.boot(ctx, bootRequest{StartRequest: wire.StartRequest{Fence: r.Fence, Resources: r.Resources, Hostname: r.Hostname, Layers: m.Layers,
			Volumes: r.Volumes, Egress: r.Egress},
			checkpoint: &m, renewIdentity: r.RenewIdentity})
	}
	letPrograms, err := h.verifyForRestore(ctx, r, m)
	if err != nil {
		return wire.Machine{}, err
	}
	defer letPrograms()
	release, err := h.admit(r.Owner(), r.Resources)
	if err != nil {
		return wire.Machine{}, err
	}
	defer release()
	lower, err := h.mountLayers(m.Layers)
	if err != nil {
		return wire.Machine{}, err
	}
	disk := attemptDisk(r.Fence)
	if err := h.restoreDisk(r, disk); err != nil {
		return wire.Machine{}, because("restore_failed", "The disk could not be made", err)
	}
	s, err := h.restoreSandbox(ctx, r, m, lower, disk)
	if err != nil {
		return wire.Machine{}, because("restore_failed", "The checkpoint could not be restored", errors.Join(err, h.discard(s, r.Owner(), disk)))
	}
	h.enlist(s)
	return h.describe(s), h.points.at("restore.answer")
}

// If another operation deletes the source during the restore, the restore fails and removes its objects.
func sourceOf(r wire.RestoreRequest) string {
	if r.Of == nil {
		return r.Owner()
	}
	return r.Of.Owner()
}

// verifyForRestore checks everything before the first change. Engine and agent are protected from collection until
// letPrograms.
func (h *Host) verifyForRestore(ctx context.Context, r wire.RestoreRequest, m manifest) (letPrograms func(), err error) {
	if letPrograms, err = h.holdPrograms(m); err != nil {
		return nil, err
	}
	err = h.verifyContent(ctx, h.pool.CheckpointDir(sourceOf(r), r.CheckpointID), m)
	switch {
	case err != nil:
		err = h.damaged(m, err)
	case m.pagesBytes() > int64(r.Resources.MemoryMiB)<<20:
		err = refuse("invalid_resources", "The checkpoint holds more memory than the machine would have")
	default:
		return letPrograms, nil
	}
	letPrograms()
	return nil, err
}

func (h *Host) restoreDisk(r wire.RestoreRequest, disk string) error {
	if err := h.points.at("restore.disk"); err != nil {
		return err
	}
	if err := h.raiseLimitForAssembly(r.Owner(), r.Resources.DiskGiB); err != nil {
		return err
	}
	path := h.pool.DiskPath(r.Owner(), disk)
	if err := h.pool.DeleteSubvolume(path); err != nil {
		return err
	}
	from := filepath.Join(h.pool.CheckpointDir(sourceOf(r), r.CheckpointID), diskName)
	return h.pool.SnapshotDisk(from, r.Owner(), path, false)
}

// restoreSandbox may return a sandbox with an error; the caller must discard it.
func (h *Host) restoreSandbox(ctx context.Context, r wire.RestoreRequest, m manifest, lower []string, disk string) (*engine.Sandbox, error) {
	if err := h.points.at("restore.shell"); err != nil {
		return nil, err
	}
	size := sizeOf(r.Resources)
	wanted := network.Wish{Address: m.addressFor(r), Owner: r.Owner()}
	s, err := h.stock.takeBlank(ctx, size, m.build(), wanted)
	if err != nil {
		return nil, err
	}
	claim := h.newClaim(r.Fence, disk, m.Layers, r.Resources)
	claim.OOMKills = h.oomKills(s)
	err = s.Update(func(record *engine.Record) { record.Kind, record.Size, record.Claim = engine.KindMachine, size, &claim })
	if err := cmp.Or(err, h.engine.Boost(s, size), h.points.at("restore.address")); err != nil {
		return s, err
	}
	if err := cmp.Or(h.engine.GiveAddress(ctx, s, wanted), h.points.at("restore.mount")); err != nil {
		return s, err
	}
	if err := errors.Join(h.mountDisk(s, lower, h.pool.DiskPath(r.Owner(), disk)), h.engine.SetGuestDiskSize(s, int64(r.Resources.DiskGiB)<<30)); err != nil {
		return s, err
	}
	if err := h.giveVolumes(s, r.Volumes); err != nil {
		return s, err
	}
	if err := h.applyEgress(ctx, s, r.Egress); err != nil {
		return s, err
	}
	if err := h.points.at("restore.incarnation"); err != nil {
		return s, err
	}
	incarnation := h.incarnation(r.Fence, r.Hostname, r.Resources, r.RenewIdentity)
	incarnation.Volumes = s.Record().Claim.Volumes
	if err := h.engine.WriteIncarnation(s, incarnation); err != nil {
		return s, err
	}
	if err := h.points.at("restore.restore"); err != nil {
		return s, err
	}
	image, err := h.openImage(h.pool.CheckpointDir(sourceOf(r), r.CheckpointID))
	if err != nil {
		return s, err
	}
	if err := h.engine.RestoreInto(ctx, s, image, m.AgentSHA256); err != nil {
		return s, err
	}
	return s, h.awaitRestored(ctx, r, s, m)
}

// openImage prefers the source's open files, which are in the page cache. A copy's parts have the same bytes.
func (h *Host) openImage(dir string) ([]*os.File, error) {
	if image := h.warm.take(dir); image != nil {
		return image, nil
	}
	return engine.OpenImage(dir)
}

func (h *Host) awaitRestored(ctx context.Context, r wire.RestoreRequest, s *engine.Sandbox, m manifest) error {
	if err := h.points.at("restore.agent"); err != nil {
		return err
	}
	answer, err := h.engine.WaitForAgent(ctx, s, r.Epoch)
	if err != nil {
		return err
	}
	if answer.WorkspaceID != r.ID {
		return errors.New("the agent answers as somebody else")
	}
	if err := h.points.at("restore.commit"); err != nil {
		return err
	}
	if err := errors.Join(h.handOver(s), h.setGuestLimit(r.Owner(), s.Record().Claim.Disk, r.Resources.DiskGiB, m.DiskBytes)); err != nil {
		return err
	}
	if err := noteRefused(s, answer.RefusedVolumes); err != nil {
		return err
	}
	return s.Update(func(record *engine.Record) { record.Protocol, record.Claim.State = m.protocol(), engine.Running })
}

// addressFor returns the address that the guest had. A fork gets another, because its source may return to that
// address.
func (m manifest) addressFor(r wire.RestoreRequest) netip.Addr {
	if r.Of != nil {
		return netip.Addr{}
	}
	address, err := netip.ParseAddr(m.Address)
	if err != nil { // empty in manifests of older releases
		return netip.Addr{}
	}
	return address
}

func (m manifest) pagesBytes() int64 {
	for _, p := range m.Parts {
		if p.Name == "pages.img" {
			return p.StoredBytes
		}
	}
	return 0
}

func containsFold(text, part string) bool { return strings.Contains(strings.ToLower(text), part) }
