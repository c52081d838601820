package hostd

import (
	"fmt"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// build is what the checkpoint restores under.
func (m manifest) build() engine.Build {
	return engine.Build{Engine: m.Engine, SpecVersion: m.SpecVersion}
}

// protocol is what the checkpoint's agent speaks: a manifest that does not say is of the time of the first.
func (m manifest) protocol() int { return max(m.Protocol, 1) }

// holdPrograms keeps what a checkpoint restores with for as long as a verb works with it, or refuses: nothing else restores it.
func (h *Host) holdPrograms(m manifest) (release func(), err error) {
	switch {
	case m.Version != manifestVersion || m.SpecVersion < engine.SpecVersionMin || m.SpecVersion > engine.SpecVersion:
		return nil, refuse("checkpoint_incompatible", "The checkpoint was written by another version of the service")
	case !h.processor.has(m):
		return nil, because("checkpoint_incompatible", "The checkpoint was written on a processor that can do what this one cannot",
			fmt.Errorf("missing here: %v", h.processor.lacks(m.Processor)))
	case !wire.SpeaksTo(m.protocol()):
		return nil, refuse("checkpoint_incompatible", "The checkpoint's agent speaks another protocol")
	}
	if release, err = h.engine.Hold(m.Engine, m.AgentSHA256); err != nil {
		return nil, because("checkpoint_incompatible", "The engine or the agent of the checkpoint is not on this computer", err)
	}
	return release, nil
}

// collectPrograms removes the engines and agents of earlier versions that no machine runs on and no checkpoint names. It reads every
// manifest, so it does so only where there is one to remove.
func (h *Host) collectPrograms() error {
	if spare, err := h.engine.Spare(); err != nil || !spare {
		return err
	}
	return h.engine.Collect(h.neededPrograms)
}

func (h *Host) neededPrograms(needed engine.Needed) error {
	for _, s := range h.livingMachines() {
		record := s.Record()
		needed.Engines[record.Engine], needed.Agents[record.AgentSHA256] = true, true
	}
	workspaces, err := h.pool.ListWorkspaces()
	if err != nil {
		return err
	}
	for _, workspace := range workspaces {
		ids, err := h.pool.ListCheckpoints(workspace)
		if err != nil {
			return err
		}
		for _, id := range ids {
			// One that cannot be read names nothing that it could be restored with.
			if m, err := h.readManifest(workspace, id); err == nil {
				needed.Engines[m.Engine], needed.Agents[m.AgentSHA256] = true, true
			}
		}
	}
	return nil
}
