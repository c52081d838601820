package hostd

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/pool"
)

// rooms keeps the limits of running machines' disks where their users expect them. What a guest deletes gives its room back although a
// checkpoint or a fork still holds it; the kernel tells nobody of a delete, and answers a write beyond the limit by itself. So the disks
// that come near their limit are looked at, and those of which much has changed.
type rooms struct {
	mu   sync.Mutex // held while a limit is set: by a look only for the machine that runs, so that none is set late
	seen map[*engine.Sandbox]*lastLook
}

type lastLook struct {
	used int64     // as it counted then
	next time.Time // not before
	late time.Time // and not much later, near the limit
}

const (
	lookTime     = time.Second
	lookTimeLate = 5 * time.Second // a commit may have hidden that something was changed
	lookCost     = 20              // a look is followed by as many times its length without one

	blankRoomMin = 64 << 20 // a machine on a blank disk with less cannot do anything
)

// keepRooms looks until the context ends.
func (h *Host) keepRooms(ctx context.Context) {
	for ctx.Err() == nil {
		wait(ctx, nil, lookTime)
		h.lookAtRooms(ctx)
	}
}

func (h *Host) lookAtRooms(ctx context.Context) {
	now := time.Now()
	seen := map[*engine.Sandbox]*lastLook{}
	var due []*engine.Sandbox
	for _, s := range h.livingMachines() {
		look := h.rooms.seen[s]
		if look == nil {
			look = &lastLook{used: -1}
		}
		seen[s] = look
		if h.isRoomDue(s, look, now) {
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

// isRoomDue is cheap. A guest that stands still changes nothing.
func (h *Host) isRoomDue(s *engine.Sandbox, look *lastLook, now time.Time) bool {
	claim := s.Record().Claim
	if claim.State != engine.Running || now.Before(look.next) {
		return false
	}
	if frozen, err := h.groups.Get(s.Slot).Frozen(); err != nil || frozen {
		return false
	}
	room, err := h.pool.RoomOf(claim.Owner)
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

func (h *Host) lookAt(s *engine.Sandbox, look *lastLook) {
	claim := s.Record().Claim
	began := time.Now()
	room, err := h.measureRoom(claim.Owner, h.pool.DiskPath(claim.Owner, claim.Disk), claim.DiskGiB)
	if err == nil {
		look.used = room.Used
		err = h.setRoomOf(s, room)
	}
	if err != nil && !s.Ended() {
		h.log.Warn("the room of a disk cannot be found out", "workspace", claim.Owner, "error", err)
	}
	now := time.Now()
	look.next = now.Add(lookCost * now.Sub(began)) // a disk with many files must not take a processor
	look.late = now.Add(lookTimeLate)
}

func (h *Host) setRoomOf(s *engine.Sandbox, room pool.Room) error {
	h.rooms.mu.Lock()
	defer h.rooms.mu.Unlock()
	workspace := s.Record().Claim.Owner
	if h.machine(workspace) != s {
		return nil // another one may be in the making
	}
	return h.pool.SetRoom(workspace, room)
}

func (h *Host) measureRoom(workspace, disk string, diskGiB int) (pool.Room, error) {
	bytes, err := h.pool.ReferencedBytes(disk)
	if err != nil {
		return pool.Room{}, err
	}
	return h.pool.RoomFor(workspace, diskGiB, bytes)
}

// assemble makes room for what the service writes while it makes a machine.
func (h *Host) assemble(workspace string, diskGiB int) error {
	h.rooms.mu.Lock()
	defer h.rooms.mu.Unlock()
	return h.pool.AssembleWorkspace(workspace, diskGiB)
}

// allow sets the limit under which the guest is handed over. Bytes that are not known are measured.
func (h *Host) allow(workspace, disk string, diskGiB int, bytes *int64) error {
	var room pool.Room
	var err error
	if bytes != nil {
		room, err = h.pool.RoomFor(workspace, diskGiB, *bytes)
	} else {
		room, err = h.measureRoom(workspace, h.pool.DiskPath(workspace, disk), diskGiB)
	}
	if err != nil {
		return err
	}
	return h.pool.SetRoom(workspace, room)
}

// roomForBlank refuses a blank disk that what the checkpoints keep would leave without room.
func (h *Host) roomForBlank(workspace string, diskGiB int) error {
	room, err := h.pool.RoomFor(workspace, diskGiB, 0)
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
