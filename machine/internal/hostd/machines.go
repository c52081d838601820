package hostd

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func (h *Host) machine(workspace string) *engine.Sandbox {
	h.mu.Lock()
	s := h.machines[workspace]
	h.mu.Unlock()
	if s == nil || !s.Ended() {
		return s
	}
	h.noticeEnd(s)
	return nil
}

// runningMachine refuses another epoch, because that machine belongs to another attempt.
func (h *Host) runningMachine(f wire.Fence) (*engine.Sandbox, error) {
	s := h.machine(f.Owner())
	if s == nil || s.Record().Claim.Epoch != f.Epoch {
		return nil, refuse("not_running", "The workspace has no machine of this epoch here")
	}
	return s, nil
}

func (h *Host) admit(workspace string, wanted wire.Resources) (release func(), err error) {
	counted := h.config.MemoryHeadroomMinMiB
	if wanted.CPUMillis > h.config.Capacity.CPUMillis || wanted.MemoryMiB+counted > h.config.Capacity.MemoryMiB {
		return nil, refuse("invalid_resources", "This computer is smaller than that")
	}
	if !h.setAside(workspace, wanted) {
		return nil, refuse("no_capacity", "The memory of this computer is in use")
	}
	h.balance() // reduces the headroom of others before the machine uses its share
	return func() {
		h.mu.Lock()
		delete(h.making, workspace)
		h.mu.Unlock()
		h.balance()
	}, nil
}

func (h *Host) setAside(workspace string, wanted wire.Resources) bool {
	counted := h.config.MemoryHeadroomMinMiB
	h.mu.Lock()
	defer h.mu.Unlock()
	used := wanted.MemoryMiB + counted
	for _, s := range h.machines {
		used += s.Record().Size.MemoryMiB + counted
	}
	for _, making := range h.making {
		used += making.MemoryMiB + counted
	}
	if used > h.config.Capacity.MemoryMiB {
		return false
	}
	h.making[workspace] = wanted
	return true
}

// enlist adds the machine to the list. From then on, its end is reported as an event.
func (h *Host) enlist(s *engine.Sandbox) {
	h.mu.Lock()
	h.machines[s.Record().Claim.Owner] = s
	h.mu.Unlock()
	h.last.forget(s.Record().Claim.Owner)
	go h.clearAfter(s)
}

// handOver sets the machine's limits. It gives the cell the freezer file, to thaw without hostd.
func (h *Host) handOver(s *engine.Sandbox) error {
	if err := h.engine.Resize(s, s.Record().Size); err != nil {
		return err
	}
	return os.Chown(h.groups.Get(s.Slot).FreezerFile(), h.config.SocketUID, -1)
}

// noticeEnd reports an unexpected end. Only the first goroutine that sees it reports it, and lists the sandbox for
// removal before the next machine is made.
func (h *Host) noticeEnd(s *engine.Sandbox) {
	claim := s.Record().Claim
	if !h.isListed(s) {
		return // it was stopped on request, and the caller cleans up
	}
	h.noteLast(s, wire.MachineCounters{})
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.machines[claim.Owner] != s || h.stopping[s] {
		return // another goroutine has reported it since the check above
	}
	delete(h.machines, claim.Owner)
	h.dead[claim.Owner] = append(h.dead[claim.Owner], s)
	reason := h.deathReason(s)
	h.log.Warn("a machine ended", "workspace", claim.Owner, "epoch", claim.Epoch, "slot", s.Slot, "reason", reason)
	h.events.add(wire.HostEvent{Kind: "died", Subject: wire.SubjectOf(claim.Owner), Epoch: claim.Epoch, Fence: claim.Fence, Reason: reason, At: stamp(time.Now()), Counters: h.last.of(claim.Owner)})
}

func (h *Host) isListed(s *engine.Sandbox) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.machines[s.Record().Claim.Owner] == s && !h.stopping[s]
}

func (h *Host) clearAfter(s *engine.Sandbox) {
	<-s.Done()
	h.noticeEnd(s)
	ctx, cancel := context.WithTimeout(context.Background(), verbTime)
	defer cancel()
	workspace := s.Record().Claim.Owner
	release, err := h.jobs.acquire(ctx, workspace)
	if err != nil {
		return
	}
	defer release()
	if err := h.clearDead(ctx, workspace); err != nil {
		h.log.Error("a dead machine is not removed yet", "slot", s.Slot, "error", err)
	}
}

func (h *Host) deathReason(s *engine.Sandbox) string {
	_, _, kills, err := h.groups.Get(s.Slot).Stats()
	if err == nil && kills > s.Record().Claim.OOMKills {
		return "out_of_memory"
	}
	return "killed"
}

// clearDead removes ended machines of the workspace. The caller must hold the workspace's queue.
func (h *Host) clearDead(ctx context.Context, workspace string) error {
	h.mu.Lock()
	left := h.dead[workspace]
	h.mu.Unlock()
	for _, s := range left {
		err := h.endMachineReader(workspace, s.Record().Claim.Disk)
		if err := errors.Join(err, h.engine.Remove(ctx, s)); err != nil {
			return err
		}
		h.mu.Lock()
		h.dead[workspace] = without(h.dead[workspace], s)
		if len(h.dead[workspace]) == 0 {
			delete(h.dead, workspace)
		}
		h.mu.Unlock()
	}
	return nil
}

func (h *Host) describe(s *engine.Sandbox) wire.Machine {
	record := s.Record()
	claim := record.Claim
	machine := wire.Machine{
		Subject: wire.SubjectOf(claim.Owner), Epoch: claim.Epoch, Fence: claim.Fence, OperationID: claim.OperationID,
		Slot: s.Slot, State: "running", Disk: claim.Disk, Address: s.AgentAddress(), AgentKey: h.engine.AgentKey(s.Slot, claim.Epoch),
		StartedAt: claim.StartedAt, Connected: claim.Connected, Egress: h.router.Egress(s.Slot),
		Resources: wire.Resources{CPUMillis: record.Size.CPUMillis, MemoryMiB: record.Size.MemoryMiB, DiskGiB: claim.DiskGiB},
		Engine:    record.Engine, AgentProtocol: record.AgentProtocol(), EngineRefused: h.refusesEngine(record.Engine),
		RefusedVolumes: claim.RefusedVolumes,
	}
	if claim.State != engine.Running {
		machine.State = "paused"
	}
	group := h.groups.Get(s.Slot)
	machine.FreezerFile = group.FreezerFile()
	if frozen, err := group.Frozen(); err == nil && frozen && machine.State == "running" {
		machine.State = "frozen"
	}
	return machine
}

func without(list []*engine.Sandbox, gone *engine.Sandbox) []*engine.Sandbox {
	var kept []*engine.Sandbox
	for _, s := range list {
		if s != gone {
			kept = append(kept, s)
		}
	}
	return kept
}
