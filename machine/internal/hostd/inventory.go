package hostd

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sort"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// The last event's number is read first, so that an event during the listing is delivered twice rather than lost.
func (h *Host) inventory(ctx context.Context, withFiles bool) (wire.Inventory, error) {
	last := h.events.lastSeq()
	inventory := wire.Inventory{Instance: h.config.Instance, BootID: h.events.bootID, HostBootID: h.hostBootID, Engine: h.engine.Version(),
		EngineRefused: h.refusesEngine(h.engine.Version()),
		LastEvent:     last, Installation: h.owner.current(), HighestFence: h.jobs.highestFence(),
		Machines: []wire.Machine{}, Files: []wire.SubjectFiles{}, Volumes: []wire.VolumeHere{}}
	for _, s := range h.livingMachines() {
		inventory.Machines = append(inventory.Machines, h.describe(s))
	}
	var err error
	if withFiles {
		if inventory.Files, err = h.allFiles(ctx); err != nil {
			return inventory, err
		}
		if inventory.Volumes, err = h.volumesHere(); err != nil {
			return inventory, err
		}
	}
	if inventory.Engines, err = h.engine.Builds(); err != nil {
		return inventory, err
	}
	inventory.Slots, inventory.Shells = h.stock.counts()
	inventory.Resolver = h.resolver.read()
	inventory.FittedSlots = len(h.stock.prepared())
	inventory.Capacity, err = h.capacity()
	return inventory, err
}

func (h *Host) getInventory(w http.ResponseWriter, r *http.Request) {
	withFiles := r.URL.Query().Get("files") != "false"
	view(h, func(ctx context.Context) (wire.Inventory, error) { return h.inventory(ctx, withFiles) }).ServeHTTP(w, r)
}

func (h *Host) allFiles(ctx context.Context) ([]wire.SubjectFiles, error) {
	all := []wire.SubjectFiles{}
	workspaces, err := h.pool.ListWorkspaces()
	if err != nil {
		return all, err
	}
	look := h.listed.look()
	defer look.end()
	for _, workspace := range workspaces {
		if err := ctx.Err(); err != nil {
			return all, err
		}
		files, err := h.workspaceFiles(look, workspace)
		if err != nil {
			return all, err
		}
		all = append(all, files)
	}
	return all, nil
}

func (h *Host) workspaceFiles(look *cachePass, workspace string) (wire.SubjectFiles, error) {
	files := wire.SubjectFiles{Subject: wire.SubjectOf(workspace), Fence: h.jobs.fenceOf(workspace), Checkpoints: []wire.CheckpointInfo{}}
	var err error
	if files.Disks, err = h.pool.ListDisks(workspace); err != nil {
		return files, err
	}
	ids, err := h.pool.ListCheckpoints(workspace)
	if err != nil {
		return files, err
	}
	for _, id := range ids {
		info, err := look.checkpoint(h, workspace, id)
		if err != nil {
			// An unreadable checkpoint is skipped; a restore of it reports the reason.
			continue
		}
		files.Checkpoints = append(files.Checkpoints, info)
	}
	files.Quarantined, err = h.listQuarantined(workspace)
	return files, err
}

func (h *Host) capacity() (wire.HostCapacity, error) {
	total, free, reserve, err := h.pool.Usage()
	disk := h.config.Capacity.DiskGiB
	if disk == 0 {
		disk = int(total >> 30)
	}
	return wire.HostCapacity{CPUMillis: h.config.Capacity.CPUMillis, MemoryMiB: h.config.Capacity.MemoryMiB,
		HeadroomMiB: h.config.MemoryHeadroomMinMiB, DiskGiB: disk, PoolBytes: total, PoolFreeBytes: free, ReserveBytes: reserve}, err
}

func (h *Host) stats(context.Context) (wire.Stats, error) { return h.statsOf(h.livingMachines()) }

func (h *Host) measureMachines(_ context.Context, r wire.MeasureRequest) (wire.Stats, error) {
	var named []*engine.Sandbox
	h.mu.Lock()
	for _, subject := range r.Subjects {
		if s := h.machines[subject.Owner()]; s != nil && !s.Ended() {
			named = append(named, s)
		}
	}
	h.mu.Unlock()
	return h.statsOf(named)
}

func (h *Host) statsOf(machines []*engine.Sandbox) (wire.Stats, error) {
	stats := wire.Stats{Machines: []wire.MachineCounters{}}
	for _, s := range machines {
		one, err := h.countersOf(s)
		if errors.Is(err, errNoDisk) {
			h.log.Warn("the disk of a machine cannot be measured", "of", s.Record().Claim.Owner, "error", err)
		}
		if err == nil { // an error means that the machine has ended
			stats.Machines = append(stats.Machines, one)
		}
	}
	return stats, nil
}

func (h *Host) measureDisks(_ context.Context, r wire.MeasureRequest) (wire.Measures, error) {
	measures := wire.Measures{Disks: []wire.DiskMeasure{}}
	for _, subject := range r.Subjects {
		bytes, err := h.pool.DiskBytes(subject.Owner())
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			h.log.Warn("a disk cannot be measured", "of", subject.Owner(), "error", err)
			continue
		}
		measures.Disks = append(measures.Disks, wire.DiskMeasure{Subject: subject, DiskBytes: bytes})
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

func (h *Host) firewalls(context.Context) (wire.Firewalls, error) {
	answer := wire.Firewalls{Found: []wire.FirewallFound{}}
	for _, each := range h.router.Firewalls() {
		answer.Found = append(answer.Found, wire.FirewallFound{Name: each.Name, State: each.State, Why: each.Why, Recipe: each.Recipe})
	}
	return answer, nil
}
