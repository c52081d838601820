package hostd

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/pool"
)

// diskCapacity gives a guest the capacity of deleted files back, even if a checkpoint or fork still refers to them. The
// kernel reports no deletes and rejects writes at the limit by itself. So a poller measures disks that are near their
// limit or have changed much.
type diskCapacity struct {
	mu   sync.Mutex // held while a limit is set; the poller checks under it that the machine is still the listed one
	seen map[*engine.Sandbox]*measurement
}

type measurement struct {
	used int64     // bytes used at the last measurement
	next time.Time // no measurement before this time
	late time.Time // near the limit, the next measurement is due by this time
}

const (
	lookTime     = time.Second
	lookTimeLate = 5 * time.Second // longer than a commit, which may have hidden a change
	lookCost     = 20              // after a measurement, this many times its duration passes before the next

	blankRoomMin = 64 << 20 // a machine whose blank disk has less free space cannot work
)

func (h *Host) pollDiskCapacity(ctx context.Context) {
	for ctx.Err() == nil {
		wait(ctx, nil, lookTime)
		h.measureDueDisks(ctx)
	}
}

func (h *Host) measureDueDisks(ctx context.Context) {
	now := time.Now()
	seen := map[*engine.Sandbox]*measurement{}
	var due []*engine.Sandbox
	for _, s := range h.livingMachines() {
		look := h.rooms.seen[s]
		if look == nil {
			look = &measurement{used: -1}
		}
		seen[s] = look
		if h.isMeasurementDue(s, look, now) {
			due = append(due, s)
		}
	}
	h.rooms.seen = seen
	if len(due) == 0 {
		return
	}
	if err := h.pool.Commit(); err != nil {
		h.log.Error("the disk pool cannot be committed", "error", err)
		return
	}
	for _, s := range due {
		if ctx.Err() != nil {
			return
		}
		h.lookAt(s, seen[s])
	}
}

// isMeasurementDue is cheap enough for each pass. Paused and frozen machines change nothing, so they are skipped.
func (h *Host) isMeasurementDue(s *engine.Sandbox, look *measurement, now time.Time) bool {
	claim := s.Record().Claim
	if claim.State != engine.Running || now.Before(look.next) {
		return false
	}
	if frozen, err := h.groups.Get(s.Slot).Frozen(); err != nil || frozen {
		return false
	}
	room, err := h.pool.CapacityOf(claim.Owner)
	if err != nil {
		return false
	}
	change, err := h.pool.ChangeOf(claim.Owner)
	if err != nil {
		return false
	}
	used, quota := room.Used+change.DataBytes, int64(claim.DiskGiB)<<30
	if look.used < 0 {
		look.used = used
	}
	if room.Limit-used < quota/2 {
		return change.Any || used != look.used || now.After(look.late)
	}
	return used-look.used > quota/16 || look.used-used > quota/16
}

func (h *Host) lookAt(s *engine.Sandbox, look *measurement) {
	claim := s.Record().Claim
	began := time.Now()
	room, err := h.measureRoom(claim.Owner, h.pool.DiskPath(claim.Owner, claim.Disk), claim.DiskGiB)
	if err == nil {
		look.used = room.Used
		err = h.setRoomOf(s, room)
	}
	if err != nil && !s.Ended() {
		h.log.Warn("the free space of a disk cannot be read", "workspace", claim.Owner, "error", err)
	}
	now := time.Now()
	look.next = now.Add(lookCost * now.Sub(began)) // a disk with many files must not occupy a CPU
	look.late = now.Add(lookTimeLate)
}

func (h *Host) setRoomOf(s *engine.Sandbox, room pool.DiskCapacity) error {
	h.rooms.mu.Lock()
	defer h.rooms.mu.Unlock()
	workspace := s.Record().Claim.Owner
	if h.machine(workspace) != s {
		return nil // the machine has ended, and another may be in the making
	}
	return h.pool.SetCapacity(workspace, room)
}

func (h *Host) measureRoom(workspace, disk string, diskGiB int) (pool.DiskCapacity, error) {
	bytes, err := h.pool.ReferencedBytes(disk)
	if err != nil {
		return pool.DiskCapacity{}, err
	}
	return h.pool.CapacityFor(workspace, diskGiB, bytes)
}

func (h *Host) raiseLimitForAssembly(workspace string, diskGiB int) error {
	h.rooms.mu.Lock()
	defer h.rooms.mu.Unlock()
	return h.pool.AssembleWorkspace(workspace, diskGiB)
}

func (h *Host) setGuestLimit(workspace, disk string, diskGiB int, bytes *int64) error {
	var room pool.DiskCapacity
	var err error
	if bytes != nil {
		room, err = h.pool.CapacityFor(workspace, diskGiB, *bytes)
	} else {
		room, err = h.measureRoom(workspace, h.pool.DiskPath(workspace, disk), diskGiB)
	}
	if err != nil {
		return err
	}
	return h.pool.SetCapacity(workspace, room)
}

func (h *Host) checkBlankCapacity(workspace string, diskGiB int) error {
	room, err := h.pool.CapacityFor(workspace, diskGiB, 0)
	if err != nil {
		return err
	}
	if room.Left() < blankRoomMin {
		return because("", "", unix.EDQUOT)
	}
	return nil
}

func (h *Host) mountDisk(s *engine.Sandbox, lower []string, disk string) error {
	return h.engine.MountDisk(s, lower, disk, h.pool.CountersOf(disk))
}
