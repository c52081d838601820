package hostd

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/engine"
)

const (
	// The memory reserved for a warm or blank sandbox is three times its usual use.
	waitingMiB      = 64
	headroomStepMiB = 32
	// The kernel guarantees this memory to service and database, if it can.
	serviceMinBytes = 256 << 20
)

// headroomMiB gives equal shares, so that a machine reaches its own limit before the limit of all machines.
func (c Config) headroomMiB(machines, toldMiB int) int {
	if c.MachinesMemoryMiB == 0 || machines == 0 {
		return c.MemoryHeadroomMiB
	}
	left := c.MachinesMemoryMiB - (c.Slots.Count+c.Shells.Count)*waitingMiB - toldMiB
	part := left / machines / headroomStepMiB * headroomStepMiB
	return min(max(part, c.MemoryHeadroomMinMiB), c.MemoryHeadroomMiB)
}

// balance divides the headroom among all machines, including those that are being made.
func (h *Host) balance() {
	h.balancing.Lock()
	defer h.balancing.Unlock()
	machines, told := h.told()
	headroom := h.config.headroomMiB(len(told), sum(told))
	h.engine.SetHeadroom(int64(headroom) << 20)
	for _, s := range machines {
		err := h.engine.LimitMemory(s)
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENODEV): // no limit is needed: the machine ended in between
		case errors.Is(err, unix.EBUSY):
			h.log.Warn("a machine uses more than its part of the memory and keeps it for now", "slot", s.Slot, "headroom_mib", headroom)
		default:
			h.log.Error("a machine has a wrong limit", "slot", s.Slot, "error", err)
		}
	}
}

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

// The common limit may be below the current use, which the kernel refuses. The next sweep tries again.
func (h *Host) boundMemory() {
	err := errors.Join(h.groups.LimitMachines(int64(h.config.MachinesMemoryMiB)<<20), h.groups.ProtectService(serviceMinBytes))
	if err != nil {
		h.log.Error("the memory of all machines is not bounded", "error", err)
	}
}
