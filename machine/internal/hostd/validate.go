package hostd

import (
	"cmp"
	"regexp"
	"slices"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// These patterns exclude separators, because the names become parts of paths.
var (
	uuidPattern     = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	digestPattern   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	hostnamePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	stepPattern     = regexp.MustCompile(`^[a-z0-9][a-z0-9_.:-]{0,63}$`)
	diskPattern     = regexp.MustCompile(`^e[0-9]{1,18}\.[0-9]{1,18}$`)
)

const (
	layersMax   = 32
	namesMax    = 256
	numberMax   = 1 << 53 // the largest range in which JavaScript's numbers are exact
	memoryMin   = 64
	memoryMax   = 1 << 20
	cpuMin      = 50
	cpuMax      = 256_000
	diskGiBMax  = 16 << 10
	bodyBytes   = 1 << 20
	eventsKept  = 4096
	answersKept = 256
)

func isSubject(s wire.Subject) bool {
	return slices.Contains(wire.Kinds, s.Kind) && uuidPattern.MatchString(s.ID)
}

func checkFence(f wire.Fence) error {
	if !isSubject(f.Subject) {
		return refuse("bad_request", "subject is not a kind and a UUID")
	}
	return checkAttempt(f)
}

func checkAttempt(f wire.Fence) error {
	switch {
	case !uuidPattern.MatchString(f.OperationID):
		return refuse("bad_request", "operation_id is not a UUID")
	case !stepPattern.MatchString(f.Step):
		return refuse("bad_request", "step is not a name")
	case f.Epoch < 0 || f.Epoch > numberMax || f.Fence < 1 || f.Fence > numberMax:
		return refuse("bad_request", "epoch or fence is out of range")
	}
	return nil
}

func checkResources(r wire.Resources) error {
	switch {
	case r.CPUMillis < cpuMin || r.CPUMillis > cpuMax:
		return refuse("invalid_resources", "cpu_millis is out of range")
	case r.MemoryMiB < memoryMin || r.MemoryMiB > memoryMax:
		return refuse("invalid_resources", "memory_mib is out of range")
	case r.DiskGiB < 1 || r.DiskGiB > diskGiBMax:
		return refuse("invalid_resources", "disk_gib is out of range")
	}
	return nil
}

// Epoch 0 is that of an unclaimed sandbox, so requests start at 1.
func checkEpoch(f wire.Fence) error {
	if f.Epoch < 1 {
		return refuse("bad_request", "epoch starts at 1")
	}
	return nil
}

func checkStart(r wire.StartRequest) error {
	if err := cmp.Or(checkFence(r.Fence), checkEpoch(r.Fence), checkResources(r.Resources), checkHostname(r.Hostname), checkMounts(r.Volumes), checkEgress(r.Egress)); err != nil {
		return err
	}
	if err := checkLayers(r.Layers); err != nil {
		return err
	}
	if r.FromDisk != "" && !diskPattern.MatchString(r.FromDisk) {
		return refuse("bad_request", "from_disk is not the name of a disk")
	}
	if r.Tree != "" && (!digestPattern.MatchString(r.Tree) || r.FromDisk != "" || r.FromLayer != nil || r.FullCopy || r.TreeBytes < 0) {
		return refuse("bad_request", "tree is a SHA-256 in hex, and stands for every other disk")
	}
	if r.FromLayer == nil {
		return nil
	}
	if r.FromDisk != "" || !isSubject(r.FromLayer.Subject) {
		return refuse("bad_request", "from_layer names a subject and its checkpoint, and stands for from_disk")
	}
	return checkCheckpointID(r.FromLayer.CheckpointID)
}

func checkLayers(layers []string) error {
	if len(layers) < 1 || len(layers) > layersMax {
		return refuse("bad_request", "layers are 1 to 32 digests")
	}
	for _, digest := range layers {
		if !digestPattern.MatchString(digest) {
			return refuse("bad_request", "a layer is not a SHA-256 in hex")
		}
	}
	return nil
}

func checkRestore(r wire.RestoreRequest) error {
	if r.Of != nil && (!isSubject(*r.Of) || *r.Of == r.Subject || !r.RenewIdentity) {
		return refuse("bad_request", "of is not another subject, whose identity is renewed")
	}
	return cmp.Or(checkFence(r.Fence), checkEpoch(r.Fence), checkResources(r.Resources), checkHostname(r.Hostname), checkCheckpointID(r.CheckpointID),
		checkMounts(r.Volumes), checkEgress(r.Egress))
}

func checkCheckpoint(r wire.CheckpointRequest) error {
	if err := cmp.Or(checkFence(r.Fence), checkCheckpointID(r.CheckpointID)); err != nil {
		return err
	}
	if r.Then != thenPaused && r.Then != thenRunning {
		return refuse("bad_request", "then is paused or running")
	}
	if r.DiskOnly && r.Then != thenRunning {
		return refuse("bad_request", "disk_only goes with then running")
	}
	if r.ThenBlank && (r.Then != thenPaused || r.FromDisk != "") {
		return refuse("bad_request", "then_blank goes with then paused, and not with from_disk")
	}
	if r.FromDisk != "" {
		return checkDiskCapture(r)
	}
	if r.Into == nil {
		return nil
	}
	if !isSubject(*r.Into) || *r.Into == r.Subject {
		return refuse("bad_request", "into is not another subject")
	}
	if r.IntoFence < 1 || r.IntoFence > numberMax {
		return refuse("bad_request", "into_fence is out of range")
	}
	return nil
}

func checkDiskCapture(r wire.CheckpointRequest) error {
	if !r.DiskOnly || r.Into != nil {
		return refuse("bad_request", "from_disk goes with disk_only, and within the workspace")
	}
	if !diskPattern.MatchString(r.FromDisk) {
		return refuse("bad_request", "from_disk is malformed")
	}
	if len(r.Layers) == 0 {
		return checkResources(r.Resources)
	}
	return cmp.Or(checkLayers(r.Layers), checkResources(r.Resources))
}

func checkClone(r wire.CloneRequest) error {
	if err := cmp.Or(checkFence(r.Fence), checkCheckpointID(r.CheckpointID), checkCheckpointID(r.SourceCheckpointID)); err != nil {
		return err
	}
	if !isSubject(r.Source) {
		return refuse("bad_request", "source is not a kind and a UUID")
	}
	if r.Source == r.Subject && r.SourceCheckpointID == r.CheckpointID {
		return refuse("bad_request", "A checkpoint cannot be copied onto itself")
	}
	return nil
}

func checkStop(r wire.StopRequest) error {
	if r.MachineEpoch < 0 || r.MachineEpoch > numberMax {
		return refuse("bad_request", "machine_epoch is out of range")
	}
	return checkFence(r.Fence)
}

func checkFenced(r wire.Fenced) error { return checkFence(r.Fence) }

func checkDisks(r wire.DeleteRequest) error {
	return cmp.Or(checkNames(r.Names, diskPattern), checkFence(r.Fence))
}

func checkCheckpoints(r wire.DeleteRequest) error {
	return cmp.Or(checkNames(r.Names, uuidPattern), checkFence(r.Fence))
}

func checkNames(names []string, pattern *regexp.Regexp) error {
	if len(names) > namesMax {
		return refuse("bad_request", "at most 256 names")
	}
	for _, name := range names {
		if !pattern.MatchString(name) {
			return refuse("bad_request", "a name is malformed")
		}
	}
	return nil
}

func checkMeasure(r wire.MeasureRequest) error {
	if len(r.Subjects) > wire.MeasuresMax {
		return refuse("bad_request", "at most 500 subjects")
	}
	for _, subject := range r.Subjects {
		if !isSubject(subject) {
			return refuse("bad_request", "a subject is not a kind and a UUID")
		}
	}
	return nil
}

func checkHostname(name string) error {
	if !hostnamePattern.MatchString(name) {
		return refuse("bad_request", "hostname is not a name of one label")
	}
	return nil
}

func checkCheckpointID(id string) error {
	if !uuidPattern.MatchString(id) {
		return refuse("bad_request", "checkpoint_id is not a UUID")
	}
	return nil
}
