package hostd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// storage is an interface so that a store shared by several computers can replace the pool.
type storage interface {
	CreateVolume(id string, quotaGiB int) error
	DeleteVolume(id string) error
	HasVolume(id string) bool
	// VolumePath returns a directory that can be mounted into several machines at once.
	VolumePath(id string) string
	VolumeBytes(id string) (int64, error)
	ListVolumes() ([]string, error)
	// since "" means that the volume is no orphan.
	KeepVolume(id, since string) error
	VolumeKeptSince(id string) (string, error)
}

// volumes serializes changes of volumes and mounts. The lock prevents that a mounted volume is deleted.
type volumes struct {
	storage
	mu sync.Mutex
}

func (h *Host) createVolume(_ context.Context, r wire.VolumeRequest) (struct{}, error) {
	if err := h.points.at("volume_create.storage"); err != nil {
		return struct{}{}, err
	}
	if err := h.volumes.CreateVolume(r.ID, r.QuotaGiB); err != nil {
		return struct{}{}, because("internal", "The volume could not be made", err)
	}
	return struct{}{}, h.points.at("volume_create.answer")
}

// deleteVolume first unmounts the volume from every machine and ends the processes that use it. A guest that does not
// unmount the volume can still use its open files.
func (h *Host) deleteVolume(ctx context.Context, r wire.Fenced) (struct{}, error) {
	h.volumes.mu.Lock()
	defer h.volumes.mu.Unlock()
	if err := h.points.at("volume_delete.detach"); err != nil {
		return struct{}{}, err
	}
	for _, s := range h.livingMachines() {
		if err := h.takeAway(ctx, s, r.ID); err != nil {
			return struct{}{}, err
		}
	}
	if err := h.points.at("volume_delete.storage"); err != nil {
		return struct{}{}, err
	}
	if err := h.volumes.DeleteVolume(r.ID); err != nil {
		return struct{}{}, err
	}
	return struct{}{}, h.points.at("volume_delete.answer")
}

func (h *Host) takeAway(ctx context.Context, s *engine.Sandbox, id string) error {
	claim := s.Record().Claim
	at := slices.IndexFunc(claim.Volumes, func(v wire.Volume) bool { return v.VolumeID == id })
	if at < 0 {
		return nil
	}
	left := slices.Delete(slices.Clone(claim.Volumes), at, at+1)
	if err := h.groups.Get(s.Slot).Thaw(); err != nil {
		return err
	}
	request := wire.GuestVolumesRequest{Volumes: left, EndUsers: true}
	if _, err := h.engine.SetGuestVolumes(ctx, s, claim.Epoch, request); err != nil && !s.Ended() {
		h.log.Warn("a guest does not unmount a volume that is deleted", "of", claim.Owner, "volume", id, "error", err)
	}
	if err := h.engine.DetachVolume(s, claim.Volumes[at].Place); err != nil && !s.Ended() {
		return err
	}
	return s.Update(func(record *engine.Record) { record.Claim.Volumes = left })
}

// giveVolumes skips a missing volume, so that the workspace can start with its own disk.
func (h *Host) giveVolumes(s *engine.Sandbox, wanted []wire.Volume) error {
	if len(wanted) == 0 {
		return nil
	}
	h.volumes.mu.Lock()
	defer h.volumes.mu.Unlock()
	var refused []wire.RefusedVolume
	here := slices.DeleteFunc(slices.Clone(wanted), func(v wire.Volume) bool {
		missing := !h.volumes.HasVolume(v.VolumeID)
		if missing {
			h.log.Warn("a volume is not here", "of", s.Record().Claim.Owner, "volume", v.VolumeID)
			refused = append(refused, wire.RefusedVolume{Place: v.Place, Why: wire.WhyNotHere})
		}
		return missing
	})
	if err := s.Update(func(record *engine.Record) { record.Claim.Volumes, record.Claim.RefusedVolumes = here, refused }); err != nil {
		return err
	}
	for _, v := range here {
		if err := h.engine.MountVolume(s, v, h.volumes.VolumePath(v.VolumeID)); err != nil {
			return fmt.Errorf("volume %s: %w", v.VolumeID, err)
		}
	}
	return nil
}

// setVolumes changes a machine's volumes. After a failure the machine has its previous volumes.
func (h *Host) setVolumes(ctx context.Context, r wire.VolumesRequest) (struct{}, error) {
	s, err := h.runningMachine(r.Fence)
	if err != nil {
		return struct{}{}, err
	}
	if !s.CanHaveVolumes() {
		return struct{}{}, mountRefused("agent_protocol", nil)
	}
	group := h.groups.Get(s.Slot)
	frozen, err := group.Frozen()
	if err != nil {
		return struct{}{}, err
	}
	if frozen { // its agent does not answer while it is frozen
		if err := group.Thaw(); err != nil {
			return struct{}{}, err
		}
	}
	err = h.changeVolumes(ctx, s, r.Volumes)
	if frozen {
		err = errors.Join(err, group.Freeze())
	}
	return struct{}{}, err
}

func (h *Host) changeVolumes(ctx context.Context, s *engine.Sandbox, wanted []wire.Volume) error {
	h.volumes.mu.Lock()
	defer h.volumes.mu.Unlock()
	claim := s.Record().Claim
	// A recorded volume may not be mounted, if an earlier hostd ended between record and mount.
	had := slices.DeleteFunc(slices.Clone(claim.Volumes), func(v wire.Volume) bool { return !h.engine.HasVolume(s, v.Place) })
	gone := missingFrom(had, wanted)
	fresh := missingFrom(wanted, had)
	if err := h.mountFresh(s, had, fresh); err != nil {
		return errors.Join(err, h.unmountAll(s, had, fresh))
	}
	err := h.points.at("volumes.guest")
	var answer wire.GuestVolumes
	if err == nil {
		answer, err = h.engine.SetGuestVolumes(ctx, s, claim.Epoch, wire.GuestVolumesRequest{Volumes: wanted})
	}
	if err == nil {
		err = refusedBy(answer)
	}
	if err == nil {
		err = h.unmountGone(s, gone)
	}
	if err != nil {
		return errors.Join(err, h.giveBack(ctx, s, had, fresh, gone))
	}
	if err := h.points.at("volumes.commit"); err != nil {
		return errors.Join(err, h.giveBack(ctx, s, had, fresh, gone))
	}
	return s.Update(func(record *engine.Record) { record.Claim.Volumes, record.Claim.RefusedVolumes = wanted, nil })
}

// mountFresh records the volumes before it mounts them. If this hostd ends in between, the next one can unmount them.
func (h *Host) mountFresh(s *engine.Sandbox, had, fresh []wire.Volume) error {
	for _, v := range fresh {
		if !h.volumes.HasVolume(v.VolumeID) {
			return refuse("not_found", "There is no such volume here")
		}
	}
	if err := s.Update(func(record *engine.Record) { record.Claim.Volumes = slices.Concat(had, fresh) }); err != nil {
		return err
	}
	if err := h.points.at("volumes.mount"); err != nil {
		return err
	}
	for _, v := range fresh {
		err := h.engine.UnmountVolume(s, v.Place)
		if err == nil {
			err = h.engine.MountVolume(s, v, h.volumes.VolumePath(v.VolumeID))
		}
		if err != nil {
			return because("internal", "The volume could not be mounted", err)
		}
	}
	return nil
}

func (h *Host) unmountGone(s *engine.Sandbox, gone []wire.Volume) error {
	for _, v := range gone {
		err := h.engine.UnmountVolume(s, v.Place)
		if errors.Is(err, engine.ErrInUse) {
			return &refusal{code: "volume_busy", message: "Something in the machine uses the volume", cause: err}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *Host) giveBack(ctx context.Context, s *engine.Sandbox, had, fresh, gone []wire.Volume) error {
	var err error
	for _, v := range gone {
		if h.engine.HasVolume(s, v.Place) || !h.volumes.HasVolume(v.VolumeID) {
			continue
		}
		err = errors.Join(err, h.engine.MountVolume(s, v, h.volumes.VolumePath(v.VolumeID)))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if _, asked := h.engine.SetGuestVolumes(ctx, s, s.Record().Claim.Epoch, wire.GuestVolumesRequest{Volumes: had}); asked != nil && !s.Ended() {
		h.log.Warn("a guest does not mount its volumes again", "of", s.Record().Claim.Owner, "error", asked)
	}
	return errors.Join(err, h.unmountAll(s, had, fresh))
}

// unmountAll removes mounts that the guest was not told of, or was asked to unmount.
func (h *Host) unmountAll(s *engine.Sandbox, had, fresh []wire.Volume) error {
	var err error
	for _, v := range fresh {
		err = errors.Join(err, h.engine.DetachVolume(s, v.Place))
	}
	return errors.Join(err, s.Update(func(record *engine.Record) { record.Claim.Volumes = had }))
}

// The answer comes from the guest, so only known places and reasons are stored.
func noteRefused(s *engine.Sandbox, refused []wire.RefusedVolume) error {
	if len(refused) == 0 {
		return nil
	}
	known := []wire.RefusedVolume{}
	for _, one := range refused[:min(len(refused), wire.VolumePlaces)] {
		if one.Place >= 0 && one.Place < wire.VolumePlaces {
			known = append(known, wire.RefusedVolume{Place: one.Place, Why: knownWhy(one.Why)})
		}
	}
	return s.Update(func(record *engine.Record) {
		record.Claim.RefusedVolumes = append(record.Claim.RefusedVolumes, known...)
	})
}

func refusedBy(answer wire.GuestVolumes) error {
	if len(answer.Refused) > 0 {
		return mountRefused(answer.Refused[0].Why, nil)
	}
	if len(answer.Busy) > 0 {
		return refuse("volume_busy", "Something in the machine uses the volume")
	}
	return nil
}

func mountRefused(why string, cause error) error {
	return &refusal{code: "mount_refused", message: "The volume cannot be mounted there", cause: cause, details: map[string]any{"why": knownWhy(why)}}
}

func knownWhy(why string) string {
	if slices.Contains([]string{wire.WhyNotADirectory, wire.WhyOverALink, "agent_protocol"}, why) {
		return why
	}
	return wire.WhyMount
}

func missingFrom(list, other []wire.Volume) []wire.Volume {
	return slices.DeleteFunc(slices.Clone(list), func(v wire.Volume) bool { return slices.Contains(other, v) })
}

func (h *Host) measureVolumes(_ context.Context, r wire.VolumeMeasureRequest) (wire.VolumeMeasures, error) {
	measures := wire.VolumeMeasures{Volumes: []wire.VolumeMeasure{}}
	for _, id := range r.VolumeIDs {
		bytes, err := h.volumes.VolumeBytes(id)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			h.log.Warn("a volume cannot be measured", "volume", id, "error", err)
			continue
		}
		measures.Volumes = append(measures.Volumes, wire.VolumeMeasure{VolumeID: id, StoredBytes: bytes})
	}
	return measures, nil
}
