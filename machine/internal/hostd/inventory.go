package hostd

import (
	"context"
	"errors"
	"os"
	"sort"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// inventory is what is really here. The number of the last event is read first: an event that comes while the rest is gathered is
// told again rather than lost.
func (h *Host) inventory(ctx context.Context) (wire.Inventory, error) {
	last := h.events.lastSeq()
	inventory := wire.Inventory{Instance: h.config.Instance, BootID: h.events.bootID, HostBootID: h.hostBootID, Engine: h.engine.Version(),
		LastEvent: last, Machines: []wire.Machine{}, Workspaces: []wire.WorkspaceFiles{}}
	for _, s := range h.livingMachines() {
		inventory.Machines = append(inventory.Machines, h.describe(s))
	}
	workspaces, err := h.pool.ListWorkspaces()
	if err != nil {
		return inventory, err
	}
	for _, workspace := range workspaces {
		if err := ctx.Err(); err != nil {
			return inventory, err
		}
		files, err := h.workspaceFiles(workspace)
		if err != nil {
			return inventory, err
		}
		inventory.Workspaces = append(inventory.Workspaces, files)
	}
	if inventory.Engines, err = h.engine.Builds(); err != nil {
		return inventory, err
	}
	inventory.Slots, inventory.Shells = h.stock.counts()
	inventory.FittedSlots = len(h.stock.fitted())
	inventory.Capacity, err = h.capacity()
	return inventory, err
}

func (h *Host) workspaceFiles(workspace string) (wire.WorkspaceFiles, error) {
	files := wire.WorkspaceFiles{WorkspaceID: workspace, Fence: h.jobs.fenceOf(workspace), Checkpoints: []wire.CheckpointInfo{}}
	var err error
	if files.Disks, err = h.pool.ListDisks(workspace); err != nil {
		return files, err
	}
	ids, err := h.pool.ListCheckpoints(workspace)
	if err != nil {
		return files, err
	}
	for _, id := range ids {
		m, err := h.readManifest(workspace, id)
		if err != nil {
			// Being written, being deleted, or corrupt: nothing a caller may count on. A restore says which.
			continue
		}
		files.Checkpoints = append(files.Checkpoints, m.info())
	}
	return files, nil
}

func (h *Host) capacity() (wire.Capacity, error) {
	total, free, reserve, err := h.pool.Usage()
	disk := h.config.Capacity.DiskGiB
	if disk == 0 {
		disk = int(total >> 30)
	}
	return wire.Capacity{CPUMillis: h.config.Capacity.CPUMillis, MemoryMiB: h.config.Capacity.MemoryMiB, DiskGiB: disk,
		PoolBytes: total, PoolFreeBytes: free, ReserveBytes: reserve}, err
}

func (h *Host) stats(context.Context) (wire.Stats, error) {
	stats := wire.Stats{Machines: []wire.MachineStats{}}
	for _, s := range h.livingMachines() {
		claim := s.Record().Claim
		one := wire.MachineStats{WorkspaceID: claim.WorkspaceID, Epoch: claim.Epoch, Fence: claim.Fence}
		var err error
		if one.CPUUsec, one.MemoryBytes, _, err = h.groups.Get(s.Slot).Stats(); err != nil {
			continue // it ended meanwhile
		}
		if one.DiskBytes, err = h.pool.DiskBytes(claim.WorkspaceID); err != nil {
			h.log.Warn("the disk of a machine cannot be measured", "workspace", claim.WorkspaceID, "error", err)
			continue
		}
		if one.RxBytes, one.TxBytes, err = h.router.Stats(s.Slot); err != nil {
			continue
		}
		stats.Machines = append(stats.Machines, one)
	}
	return stats, nil
}

// measureDisks leaves out what was deleted meanwhile, and what cannot be measured.
func (h *Host) measureDisks(_ context.Context, r wire.MeasureRequest) (wire.Measures, error) {
	measures := wire.Measures{Disks: []wire.DiskMeasure{}}
	for _, workspace := range r.WorkspaceIDs {
		bytes, err := h.pool.DiskBytes(workspace)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			h.log.Warn("the disk of a workspace cannot be measured", "workspace", workspace, "error", err)
			continue
		}
		measures.Disks = append(measures.Disks, wire.DiskMeasure{WorkspaceID: workspace, DiskBytes: bytes})
	}
	return measures, nil
}

func (h *Host) livingMachines() []*engine.Sandbox {
	h.mu.Lock()
	defer h.mu.Unlock()
	var living []*engine.Sandbox
	for _, s := range h.machines {
		if !s.Ended() {
			living = append(living, s)
		}
	}
	sort.Slice(living, func(i, j int) bool { return living[i].Slot < living[j].Slot })
	return living
}
