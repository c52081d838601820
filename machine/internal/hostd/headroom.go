package hostd

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/engine"
)

const (
	// waitingMiB is counted for each sandbox that waits ahead of need: three times what one takes.
	waitingMiB = 64
	// headroomStepMiB: a start or a stop changes nobody's limit by less.
	headroomStepMiB = 32
	// serviceMinBytes is what the service and the database have of their own where the kernel can promise it.
	serviceMinBytes = 256 << 20
)

// headroomMiB is what each machine may use beyond its told memory: an equal part of what all that is told leaves, within the bounds. So
// machines that take all they may are ended each by its own limit, before they reach the limit of all.
func (c Config) headroomMiB(machines, toldMiB int) int {
	if c.MachinesMemoryMiB == 0 || machines == 0 {
		return c.MemoryHeadroomMiB
	}
	left := c.MachinesMemoryMiB - (c.Slots.Count+c.Shells.Count)*waitingMiB - toldMiB
	part := left / machines / headroomStepMiB * headroomStepMiB
	return min(max(part, c.MemoryHeadroomMinMiB), c.MemoryHeadroomMiB)
}

// balance gives every machine its present headroom, those that are being made included.
func (h *Host) balance() {
	h.balancing.Lock()
	defer h.balancing.Unlock()
	machines, told := h.told()
	headroom := h.config.headroomMiB(len(told), sum(told))
	h.engine.SetHeadroom(int64(headroom) << 20)
	for _, s := range machines {
		err := h.engine.LimitMemory(s)
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENODEV): // it ended meanwhile
		case errors.Is(err, unix.EBUSY):
			h.log.Warn("a machine uses more than its part of the memory and keeps it for now", "slot", s.Slot, "headroom_mib", headroom)
		default:
			h.log.Error("a machine has another limit than it should", "slot", s.Slot, "error", err)
		}
	}
}

// told is what each workspace's machine is told, by workspace; the machines are those that are made.
func (h *Host) told() (machines []*engine.Sandbox, told map[string]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	told = map[string]int{}
	for workspace, making := range h.making {
		told[workspace] = making.MemoryMiB
	}
	for workspace, s := range h.machines {
		machines, told[workspace] = append(machines, s), s.Record().Size.MemoryMiB
	}
	return machines, told
}

func sum(values map[string]int) (total int) {
	for _, v := range values {
		total += v
	}
	return total
}

// boundMemory bounds all machines together. They may use more when the bound is new: hostd serves them all the same, and the next sweep
// tries again.
func (h *Host) boundMemory() {
	err := errors.Join(h.groups.LimitMachines(int64(h.config.MachinesMemoryMiB)<<20), h.groups.ProtectService(serviceMinBytes))
	if err != nil {
		h.log.Error("the memory of all machines is not bounded", "error", err)
	}
}
