package wire

// hostd answers HTTP over a unix socket. Every change carries a Fence; hostd runs one verb at a time for a subject. It
// stores the highest fencing token on disk and refuses a lower one (409 `fenced`). A verb repeated with the same token
// and step runs once. Host.Handler lists all calls; the less obvious:
//
//	/machines/start        blank disk, or a new attempt on a named disk
//	/machines/restore      without memory it boots from the disk
//	/machines/connect      packets may leave; after a start or restore none leave before
//	/machines/unpause      after a checkpoint that kept the guest paused
//	/machines/stop         idempotent; no instruction of the guest runs after it. Mounts, cgroup, network are
//	                       released after the answer; a verb that needs them gone waits
//	/machines/freeze       cgroup freezer
//	/machines/egress_denials   empty without a machine
//	/volumes/create        durable; sets an existing volume's limit. The subject is the volume
//	/volumes/delete        detached from every machine first
//	/subjects/fence        refuses lower tokens from now on; waits for running verbs
//	/disks|volumes/measure what quotas count
//	/inventory             ?files=false omits the pool's files
//	/events?after=N        NDJSON, kept open, a blank line every 15 s
//
// A refusal is HostError; hostd/errors.go has the codes. no_space means the pool, disk_full the workspace's limit.

// InstallationHeader is in every call that changes something. Once an installation owns the pool, other callers get
// `wrong_installation`.
const InstallationHeader = "Berth-Installation"

// InstallationRequest claims a pool without an owner, or confirms the owner.
type InstallationRequest struct {
	InstallationID string `json:"installation_id"`
	// InsteadOf takes the pool from that installation. Only operators request this, never a cell.
	InsteadOf string `json:"instead_of,omitempty"`
}

type Installation struct {
	InstallationID string `json:"installation_id"`
}

// QuarantineRequest replaces the list; what stays listed keeps its time.
type QuarantineRequest struct {
	Fence
	Whole       bool     `json:"whole,omitempty"` // everything of the subject
	Disks       []string `json:"disks"`
	Checkpoints []string `json:"checkpoints"`
}

type Quarantined struct {
	Kind  string `json:"kind"` // subject (all of it), disk, checkpoint
	Name  string `json:"name"`
	Since string `json:"since"`
}

// Fence is the command header of a verb.
type Fence struct {
	Subject     `json:"subject"`
	OperationID string `json:"operation_id"`
	Step        string `json:"step"`
	Epoch       int64  `json:"epoch"`
	Fence       int64  `json:"fence"` // the fencing token: grows with every attempt over all operations of a subject
}

func (f Fence) Caller() Fence { return f }

type Fenced struct {
	Fence
}

type Resources struct {
	CPUMillis int `json:"cpu_millis"`
	MemoryMiB int `json:"memory_mib"`
	DiskGiB   int `json:"disk_gib"`
}

type StartRequest struct {
	Fence
	Resources Resources `json:"resources"`
	Hostname  string    `json:"hostname"`
	Layers    []string  `json:"layers"` // SHA-256 of EROFS images, lowest first
	// FullCopy copies the layers' files onto the disk, which then has no layer below.
	FullCopy bool `json:"full_copy,omitempty"`
	// FromDisk is the disk to continue from; "": blank. The attempt gets a new snapshot, Machine.Disk; on commit the
	// caller moves its pointer there.
	FromDisk string `json:"from_disk,omitempty"`
	// FromLayer starts from a disk-only checkpoint of any subject instead.
	FromLayer *CheckpointName `json:"from_layer,omitempty"`
	// Tree is kept here; it lies over the layers and under a blank disk.
	Tree      string `json:"tree,omitempty"`
	TreeBytes int64  `json:"tree_bytes,omitempty"`
	// Connect lets packets leave at once: no guest process runs before the first command.
	Connect bool `json:"connect,omitempty"`
	// Egress holds before the first packet leaves. nil: EgressAllowAll, as EgressDefault.
	Egress *EgressPolicy `json:"egress,omitempty"`
	// Volumes are mounted before the first command, except missing ones.
	Volumes []Volume `json:"volumes,omitempty"`
}

type CheckpointName struct {
	Subject      `json:"subject"`
	CheckpointID string `json:"checkpoint_id"`
}

type RestoreRequest struct {
	Fence
	Resources     Resources `json:"resources"`
	Hostname      string    `json:"hostname"`
	CheckpointID  string    `json:"checkpoint_id"`
	RenewIdentity bool      `json:"renew_identity,omitempty"` // for a fork: new hostname, machine-id and SSH host keys
	// Of owns the checkpoint; nil: the subject. Another owner's must have memory, and the identity is renewed.
	Of *Subject `json:"of,omitempty"`
	// Egress is as in StartRequest. The saved guest's connections are always closed.
	Egress *EgressPolicy `json:"egress,omitempty"`
	// Volumes replace the saved guest's.
	Volumes []Volume `json:"volumes,omitempty"`
}

// VolumePlaces bounds a machine's volumes. A volume keeps its mount slot until detachment, across suspends and
// restores: the number is its name below the sandbox's /volumes.
const VolumePlaces = 16

type Volume struct {
	VolumeID  string `json:"volume_id"`
	Place     int    `json:"place"` // 0 to VolumePlaces-1
	MountPath string `json:"mount_path"`
	ReadOnly  bool   `json:"read_only,omitempty"`
}

// VolumesRequest names all volumes from now on. volume_busy: a removed one is in use. mount_refused: see details.why.
// After either the machine keeps its previous volumes.
type VolumesRequest struct {
	Fence
	Volumes []Volume `json:"volumes"`
}

// VolumeRequest creates a volume, or changes its limit.
type VolumeRequest struct {
	Fence
	QuotaGiB int `json:"quota_gib"`
}

// VolumeMeasureRequest names at most 500 volumes.
type VolumeMeasureRequest struct {
	VolumeIDs []string `json:"volume_ids"`
}

type VolumeMeasures struct {
	Volumes []VolumeMeasure `json:"volumes"`
}

type VolumeMeasure struct {
	VolumeID    string `json:"volume_id"`
	StoredBytes int64  `json:"stored_bytes"`
}

type CheckpointRequest struct {
	Fence
	CheckpointID string `json:"checkpoint_id"`
	// Into owns the checkpoint: a fork captures directly into its target. nil: the subject.
	Into      *Subject `json:"into,omitempty"`
	IntoFence int64    `json:"into_fence,omitempty"`
	// Then is the guest's next state. "paused" is for a suspend: the caller commits, then stops or unpauses. "running"
	// is for a fork or snapshot: the guest runs before the image is synced.
	Then string `json:"then"`
	// DiskOnly omits the memory: machines boot, on any engine. Only with "running".
	DiskOnly bool `json:"disk_only,omitempty"`
	// FromDisk has no machine: the caller supplies layers (none for a full copy) and resources. Only with DiskOnly.
	FromDisk  string    `json:"from_disk,omitempty"`
	Layers    []string  `json:"layers,omitempty"`
	Resources Resources `json:"resources,omitzero"`
	// ThenBlank refuses with disk_full before the capture if too little is left for the blank disk that follows. Only
	// with "paused".
	ThenBlank bool `json:"then_blank,omitempty"`
}

type CloneRequest struct {
	Fence                    // of the subject that gets the copy
	Source           Subject `json:"source"`
	SourceCheckpoint string  `json:"source_checkpoint_id"`
	CheckpointID     string  `json:"checkpoint_id"`
	// DiskOnly omits the memory, which may be damaged. A fork's memory must be restorable here.
	DiskOnly bool `json:"disk_only,omitempty"`
}

type StopRequest struct {
	Fence
	// MachineEpoch, if not zero, protects a successor from a late stop.
	MachineEpoch int64 `json:"machine_epoch,omitempty"`
}

type DeleteRequest struct {
	Fence
	Names []string `json:"names"`
}

type Machine struct {
	Subject     `json:"subject"`
	Epoch       int64         `json:"epoch"`
	Fence       int64         `json:"fence"`
	OperationID string        `json:"operation_id"`
	Slot        string        `json:"slot"`
	State       string        `json:"state"` // running, paused, frozen
	Disk        string        `json:"disk"`
	Address     string        `json:"address"` // of the agent, host:port
	AgentKey    string        `json:"agent_key"`
	StartedAt   string        `json:"started_at"`
	Connected   bool          `json:"connected"` // its packets may leave
	Egress      EgressInForce `json:"egress"`
	FreezerFile string        `json:"freezer_file,omitempty"`
	Resources   Resources     `json:"resources"`
	Engine      string        `json:"engine"`         // version of the build that it runs under
	Protocol    int           `json:"agent_protocol"` // protocol version of its agent, AgentProtocolMin to AgentProtocol
	// EngineRefused lets the machine run on, but its memory will not be restored.
	EngineRefused bool `json:"engine_refused,omitempty"`
	// RefusedVolumes were omitted by its start or restore.
	RefusedVolumes []RefusedVolume `json:"refused_volumes,omitempty"`
}

// CheckpointInfo is a finished checkpoint's manifest.
type CheckpointInfo struct {
	CheckpointID string `json:"checkpoint_id"`
	Subject      `json:"subject"`
	Epoch        int64  `json:"epoch"`
	Fence        int64  `json:"fence"`  // of the attempt that made it
	Engine       string `json:"engine"` // version of the runsc build that wrote it and that it restores under; "" without memory
	// EngineKind is EngineGVisor; "" without memory.
	EngineKind string `json:"engine_kind,omitempty"`
	DiskOnly   bool   `json:"disk_only,omitempty"`
	SizeBytes  int64  `json:"size_bytes"`
	// DiskBytes includes shared blocks; null in checkpoints of older releases.
	DiskBytes *int64    `json:"disk_bytes"`
	Disk      string    `json:"disk"` // the captured disk inside the checkpoint
	CreatedAt string    `json:"created_at"`
	PausedMS  int64     `json:"paused_ms"` // how long the guest was paused ("running" only)
	Layers    []string  `json:"layers"`
	Resources Resources `json:"resources"`
	// Counters were read after the capture. Only in the answer to a machine's checkpoint.
	Counters *MachineStats `json:"counters,omitempty"`
	// MemoryRefused is why the memory cannot be restored here now. Only in an inventory.
	MemoryRefused string `json:"memory_refused,omitempty"`
	// MissingFeatures are CPU features that this processor lacks, if known. Only in an inventory.
	MissingFeatures []string `json:"missing_features,omitempty"`
}

// A memory restores under its own kind alone.
const EngineGVisor = "gvisor"

// Reasons in MemoryRefused, and as `why` in the details of checkpoint_incompatible or checkpoint_corrupt. The details
// also have subject, checkpoint_id, missing_features and disk_is_whole: a whole disk can be cloned without memory and
// booted.
const (
	RefusedServiceVersion = "service_version" // written by another version of hostd
	RefusedEngine         = "engine_refused"  // its engine is in the setting engines_refused
	RefusedProcessor      = "processor"       // its processor had features that this one lacks
	RefusedAgentProtocol  = "agent_protocol"  // this version does not speak its agent's protocol
	RefusedNotKept        = "engine_not_kept" // its engine or agent is not on this computer
	RefusedDamaged        = "damaged"         // its image has changed; only in refusals
)

type Inventory struct {
	Instance   string `json:"instance"`
	BootID     string `json:"boot_id"` // of this hostd process: events are counted from its start
	HostBootID string `json:"host_boot_id"`
	Engine     string `json:"engine"` // version that new sandboxes run under
	// EngineRefused means that nothing is started under Engine.
	EngineRefused bool     `json:"engine_refused,omitempty"`
	Engines       []string `json:"engines"` // versions of every kept build: checkpoints of others do not restore
	LastEvent     int64    `json:"last_event"`
	// Installation owns the pool; "": no owner.
	Installation string `json:"installation"`
	// HighestFence includes deleted subjects while they are remembered.
	HighestFence int64          `json:"highest_fence"`
	Machines     []Machine      `json:"machines"`
	Files        []SubjectFiles `json:"files"`
	Volumes      []VolumeHere   `json:"volumes"`      // only with Files
	Slots        int            `json:"slots"`        // warm sandboxes, ready to be claimed
	FittedSlots  int            `json:"fitted_slots"` // of these, with a template's blank disk
	Shells       int            `json:"shells"`       // blank sandboxes, ready for a restore
	Capacity     Capacity       `json:"capacity"`
	Resolver     Resolver       `json:"resolver"`
}

type Resolver struct {
	Serving bool  `json:"serving"`
	Starts  int64 `json:"starts"` // since hostd began: more than one means that it died
}

type SubjectFiles struct {
	Subject     `json:"subject"`
	Fence       int64            `json:"fence"`
	Disks       []string         `json:"disks"`
	Checkpoints []CheckpointInfo `json:"checkpoints"`
	Quarantined []Quarantined    `json:"quarantined"`
}

type Capacity struct {
	CPUMillis     int   `json:"cpu_millis"`
	MemoryMiB     int   `json:"memory_mib"`
	HeadroomMiB   int   `json:"headroom_mib"` // part of that memory that each machine takes beyond its guest's memory
	DiskGiB       int   `json:"disk_gib"`
	PoolBytes     int64 `json:"pool_bytes"`
	PoolFreeBytes int64 `json:"pool_free_bytes"`
	ReserveBytes  int64 `json:"reserve_bytes"`
}

type Event struct {
	Seq     int64  `json:"seq"`
	BootID  string `json:"boot_id"`
	Kind    string `json:"kind"` // died
	Subject `json:"subject"`
	Epoch   int64  `json:"epoch"`
	Fence   int64  `json:"fence"`
	Reason  string `json:"reason"` // killed, out_of_memory
	At      string `json:"at"`
	// Counters are absent if they could not be read.
	Counters *MachineStats `json:"counters,omitempty"`
}

// Leftovers are orphans: objects of kernel or disk with the instance's name that hostd does not own. Two sweeps in a
// row remove one.
type Leftovers struct {
	Found        []string `json:"found"`
	RemovedTotal int64    `json:"removed_total"` // since hostd began
}

type HostError struct {
	Code      string         `json:"code"`
	Message   string         `json:"message"`
	Retryable bool           `json:"retryable"`
	Details   map[string]any `json:"details,omitempty"`
}
