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

// storage is what keeps volumes: the pool of this computer. One that several computers share would stand in its place.
type storage interface {
	CreateVolume(id string, quotaGiB int) error
	DeleteVolume(id string) error
	HasVolume(id string) bool
	// VolumePath is a directory that can be mounted into any number of machines at once.
	VolumePath(id string) string
	VolumeBytes(id string) (int64, error)
	ListVolumes() ([]string, error)
	// KeepVolume remembers since when a volume is kept that nobody names; "": somebody does.
	KeepVolume(id, since string) error
	VolumeKeptSince(id string) (string, error)
}

// volumes has the lock that makes a volume's deletion and its mounts one after another: what a machine mounts is there as long as it does.
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

// deleteVolume takes the volume from every machine first: whoever uses it there is ended, and a guest that does not let go keeps what it had
// opened of a volume that is nobody's any more.
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

// giveVolumes mounts what a machine that is being made begins with. One that is not here is left out: nothing that became of a volume keeps a
// workspace from its own disk.
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

// setVolumes changes what a running machine has. Whatever fails, it has what it had.
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
	if frozen { // its agent answers nobody
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
	// A hostd that was about to mount what the record names may have died before it did.
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

// mountFresh notes what it is about to mount: a hostd that dies here leaves mounts that its successor knows of.
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
		// An earlier attempt that was cut short may have left it.
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

// giveBack makes everything as it was, as far as the guest lets it.
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

// unmountAll takes back what was mounted in vain. The guest was told of none of it, or has been asked to unmount it.
func (h *Host) unmountAll(s *engine.Sandbox, had, fresh []wire.Volume) error {
	var err error
	for _, v := range fresh {
		err = errors.Join(err, h.engine.DetachVolume(s, v.Place))
	}
	return errors.Join(err, s.Update(func(record *engine.Record) { record.Claim.Volumes = had }))
}

// noteRefused remembers what the guest of a machine that begins could not mount. Of its words only those that are known.
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

// mountRefused says of the guest's own words only those that are known.
func mountRefused(why string, cause error) error {
	return &refusal{code: "mount_refused", message: "The volume cannot be mounted there", cause: cause, details: map[string]any{"why": knownWhy(why)}}
}

func knownWhy(why string) string {
	if slices.Contains([]string{wire.WhyNotADirectory, wire.WhyOverALink, "agent_protocol"}, why) {
		return why
	}
	return wire.WhyMount
}

// missingFrom is what the first list has and the second has not.
func missingFrom(list, other []wire.Volume) []wire.Volume {
	return slices.DeleteFunc(slices.Clone(list), func(v wire.Volume) bool { return slices.Contains(other, v) })
}

// measureVolumes leaves out what is not here.
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
