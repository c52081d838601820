package hostd

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func (m manifest) build() engine.Build {
	return engine.Build{Engine: m.Engine, SpecVersion: m.SpecVersion}
}

// A manifest without an engine kind is from a release that had only gVisor.
func (m manifest) engineKind() string {
	if m.DiskOnly {
		return ""
	}
	return cmp.Or(m.EngineKind, wire.EngineGVisor)
}

// A manifest without a protocol version has version 1.
func (m manifest) protocol() int { return max(m.Protocol, 1) }

func (h *Host) refusesMemory(m manifest) (why string, cause error) {
	switch {
	case m.DiskOnly:
		return "", nil
	case m.Version != manifestVersion || m.SpecVersion < engine.SpecVersionMin || m.SpecVersion > engine.SpecVersion:
		return wire.RefusedServiceVersion, nil
	case m.engineKind() != wire.EngineGVisor:
		return wire.RefusedEngineNotKept, fmt.Errorf("no engine of kind %s is on this computer", m.EngineKind)
	case h.refusesEngine(m.Engine):
		return wire.RefusedEngineRefused, fmt.Errorf("%s is in engines_refused", m.Engine)
	case !h.processor.has(m):
		return wire.RefusedProcessor, fmt.Errorf("missing here: %v", h.processor.lacks(m.Processor))
	case !wire.SpeaksTo(m.protocol()):
		return wire.RefusedAgentProtocol, nil
	}
	if err := h.engine.Keeps(m.Engine, m.AgentSHA256); err != nil {
		return wire.RefusedEngineNotKept, err
	}
	return "", nil
}

var memoryRefusals = map[string]string{
	wire.RefusedServiceVersion: "The checkpoint was written by another version of the service",
	wire.RefusedEngineRefused:  "The engine of the checkpoint may start nothing any more",
	wire.RefusedProcessor:      "The checkpoint was written on a processor that can do what this one cannot",
	wire.RefusedAgentProtocol:  "The checkpoint's agent speaks another protocol",
	wire.RefusedEngineNotKept:  "The engine or the agent of the checkpoint is not on this computer",
}

// holdPrograms protects the checkpoint's engine and agent from collection until release.
func (h *Host) holdPrograms(m manifest) (release func(), err error) {
	why, cause := h.refusesMemory(m)
	if why == "" {
		if release, cause = h.engine.Hold(m.Engine, m.AgentSHA256); cause == nil {
			return release, nil
		}
		why = wire.RefusedEngineNotKept // collected since the check
	}
	return nil, h.memoryRefusal("checkpoint_incompatible", memoryRefusals[why], why, m, cause)
}

func (h *Host) damaged(m manifest, cause error) error {
	return h.memoryRefusal("checkpoint_corrupt", "The checkpoint does not match its manifest", wire.RefusedDamaged, m, cause)
}

func (h *Host) missingFor(m manifest, why string) []string {
	if why != wire.RefusedProcessor {
		return nil
	}
	return h.processor.lacks(m.Processor)
}

func (h *Host) memoryRefusal(code, message, why string, m manifest, cause error) error {
	whole := h.verifyDisk(h.pool.CheckpointDir(m.Owner, m.CheckpointID), m) == nil
	details := map[string]any{"why": why, "subject": wire.SubjectOf(m.Owner), "checkpoint_id": m.CheckpointID, "disk_is_whole": whole}
	if missing := h.missingFor(m, why); len(missing) > 0 {
		details["missing_features"] = missing
	}
	return &refusal{code: code, message: message, cause: cause, details: details}
}

// EnginesButCurrent in engines_refused refuses every engine except that of new machines.
const EnginesButCurrent = "others"

// refusesEngine applies to starts and restores. Machines that already run under a refused engine go on.
func (h *Host) refusesEngine(version string) bool {
	refused := h.config.EnginesRefused
	return slices.Contains(refused, version) || version != h.engine.Version() && slices.Contains(refused, EnginesButCurrent)
}

// Collection reads every manifest, so it runs only if a program could be removed.
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
	return h.eachManifest(func(m manifest) { needed.Engines[m.Engine], needed.Agents[m.AgentSHA256] = true, true })
}
