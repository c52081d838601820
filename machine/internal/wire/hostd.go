package wire

// hostd answers HTTP over a unix socket. Every verb that changes something carries a Fence; hostd does one thing at a time for a
// subject, remembers the highest fence it has seen (on disk), refuses a lower one (409 `fenced`), and runs a verb that is
// asked again with the same fence and step once: the second caller joins the first or gets its remembered answer.
//
//	POST /machines/start        StartRequest      -> Machine   blank disk, or a new attempt on a named disk
//	POST /machines/restore      RestoreRequest    -> Machine   from a checkpoint; one of a disk alone is booted from
//	POST /machines/connect      Fenced            -> {}        packets may leave; of a started or restored machine none do before
//	POST /machines/checkpoint   CheckpointRequest -> CheckpointInfo
//	POST /machines/unpause      Fenced            -> {}        after a checkpoint that kept the guest paused
//	POST /machines/stop         StopRequest       -> Ended     idempotent; no instruction of the guest runs after it. Mounts, cgroup, network
//	                                                         go behind the answer, before the next verb that needs them gone
//	POST /machines/freeze|thaw  Fenced            -> {}        cgroup freezer
//	POST /machines/set_egress   SetEgressRequest  -> EgressRevision   egress.go; waits for no other verb
//	POST /checkpoints/clone     CloneRequest      -> CheckpointInfo
//	POST /checkpoints/delete    DeleteRequest     -> {}
//	POST /disks/delete          DeleteRequest     -> {}
//	POST /machines/volumes      VolumesRequest    -> {}        the volumes of a running machine are those from now on
//	POST /volumes/create        VolumeRequest     -> {}        durable; of one that is there, its limit. The subject is the volume
//	POST /volumes/delete        Fenced            -> {}        taken from every machine that has it, then every file gone
//	POST /volumes/keep          KeepVolumeRequest -> {}        whether a volume is kept that the caller does not know
//	POST /volumes/measure       VolumeMeasureRequest -> VolumeMeasures   what each volume's quota counts; carries no fence
//	POST /subjects/fence        Fenced            -> {}        from now on lower fences are refused; waits for what still runs
//	POST /subjects/delete       Fenced            -> Ended     machine stopped, every file gone
//	POST /subjects/quarantine   QuarantineRequest -> {}        the list of what is kept although the caller does not know it
//	POST /trees/apply|changes   tree.go
//	POST /installation          InstallationRequest -> Installation   whose the pool is; carries no fence
//	POST /disks/read            DiskReadRequest   -> DiskReader   disk.go; carries no fence
//	POST /disks/measure         MeasureRequest    -> Measures  what each subject's quota counts; carries no fence
//	POST /machines/measure      MeasureRequest    -> Stats     of the machines that it names; carries no fence
//	POST /machines/egress_denials  EgressDenialsRequest -> EgressDenials   empty without a machine; carries no fence
//	GET  /inventory             -> Inventory      with ?files=false without what lies in the pool
//	GET  /events?after=N        -> NDJSON of Event, kept open, a blank line every 15 s
//	GET  /stats                 -> Stats
//	GET  /leftovers             -> Leftovers  what carries this instance's name and belongs to nothing
//	GET  /firewalls             -> Firewalls  others of the host that machines' packets have to pass
//	GET  /healthz               -> {}
//
// A refusal is HostError. Codes: bad_request 400, not_found 404, fenced 409, not_running 409, already_running 409,
// volume_busy 409, tree_stale 409, mount_refused 422, no_space 507 (the pool's), disk_full 507 (the workspace's limit), checkpoint_failed 500, checkpoint_corrupt 422, checkpoint_incompatible 422, layer_missing 404, layer_refused 422,
// invalid_resources 422, no_capacity 503, wrong_installation 409, start_failed 500, restore_failed 500, internal 500.

// InstallationHeader is of every verb that changes something: the id of the installation whose database the caller goes by. Once the pool
// belongs to one, a verb of another, or of nobody, is refused with `wrong_installation`.
const InstallationHeader = "Berth-Installation"

// InstallationRequest gives a pool that belongs to nobody to the caller, or confirms that it is the caller's.
type InstallationRequest struct {
	InstallationID string `json:"installation_id"`
	// InsteadOf takes the pool from that installation: what people ask for, and no cell by itself.
	InsteadOf string `json:"instead_of,omitempty"`
}

type Installation struct {
	InstallationID string `json:"installation_id"`
}

// QuarantineRequest replaces the list; what was in it before stays in it since then.
type QuarantineRequest struct {
	Fence
	Whole       bool     `json:"whole,omitempty"` // everything of the subject
	Disks       []string `json:"disks"`
	Checkpoints []string `json:"checkpoints"`
}

// Quarantined is one thing in quarantine.
type Quarantined struct {
	Kind  string `json:"kind"` // subject (all of it), disk, checkpoint
	Name  string `json:"name"`
	Since string `json:"since"`
}

// Fence says for whom a verb speaks.
type Fence struct {
	Subject     `json:"subject"`
	OperationID string `json:"operation_id"`
	Step        string `json:"step"`
	Epoch       int64  `json:"epoch"`
	Fence       int64  `json:"fence"` // grows with every attempt over all operations of a subject
}

// Caller is the fence of any request that has one.
func (f Fence) Caller() Fence { return f }

type Fenced struct {
	Fence
}

// Resources of one machine.
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
	// FullCopy is a workspace whose disk holds all that the layers hold: a blank one is filled with it, and none is mounted below.
	FullCopy bool `json:"full_copy,omitempty"`
	// FromDisk names the disk to continue from; "" is a blank one. The attempt runs on a fresh snapshot of it,
	// named Machine.Disk: the caller's commit moves its pointer there.
	FromDisk string `json:"from_disk,omitempty"`
	// FromLayer names a checkpoint of a disk alone, this subject's or another's, to start from a snapshot of instead.
	FromLayer *CheckpointName `json:"from_layer,omitempty"`
	// Tree names a tree of files, kept here, that lies over the layers and under a blank disk; TreeBytes is what it has.
	Tree      string `json:"tree,omitempty"`
	TreeBytes int64  `json:"tree_bytes,omitempty"`
	// Connect lets its packets leave at once, as a connect afterwards would: nothing of the guest's runs in it before its first command.
	Connect bool `json:"connect,omitempty"`
	// Egress holds before the first packet leaves. nil: EgressAllowAll, under the revision EgressDefault.
	Egress *EgressPolicy `json:"egress,omitempty"`
	// Volumes are mounted before the first command. One that is not here any more is left out.
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
	RenewIdentity bool      `json:"renew_identity,omitempty"` // a fork: hostname, machine-id, SSH host keys
	// Of is whose checkpoint it is; nil: the subject's own. Another's holds memory, and its identity is renewed.
	Of *Subject `json:"of,omitempty"`
	// Egress is as in a StartRequest. What the machine was connected to when it was saved is over in any case.
	Egress *EgressPolicy `json:"egress,omitempty"`
	// Volumes as in a start; those that the checkpoint's guest had beside them are gone for it.
	Volumes []Volume `json:"volumes,omitempty"`
}

// VolumePlaces is how many volumes a machine may have. Each has a place of its own from its attachment to its detachment, suspends and
// restores between them included: that is its name below the sandbox's /volumes.
const VolumePlaces = 16

// Volume is one that a machine has, or is to have.
type Volume struct {
	VolumeID  string `json:"volume_id"`
	Place     int    `json:"place"` // 0 to VolumePlaces-1
	MountPath string `json:"mount_path"`
	ReadOnly  bool   `json:"read_only,omitempty"`
}

// VolumesRequest names all that a running machine is to have. volume_busy: one that it is to lose is in use there. mount_refused: one
// cannot be mounted where it should be; details.why says why. Either way the machine has what it had.
type VolumesRequest struct {
	Fence
	Volumes []Volume `json:"volumes"`
}

// VolumeRequest makes storage.
type VolumeRequest struct {
	Fence
	QuotaGiB int `json:"quota_gib"`
}

// VolumeMeasureRequest names volumes, 500 at most.
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
	// Into owns the checkpoint; a fork captures straight into its target. Without it the machine's own subject does.
	Into      *Subject `json:"into,omitempty"`
	IntoFence int64    `json:"into_fence,omitempty"`
	// Then says what the guest does once memory and disk are captured: "paused" (a suspend: the caller commits, then
	// stops or unpauses) or "running" (a fork or snapshot: it runs again before the image is synced).
	Then string `json:"then"`
	// DiskOnly leaves the memory out: machines start from such a checkpoint, on any engine, also where it is restored. Only with "running".
	DiskOnly bool `json:"disk_only,omitempty"`
	// FromDisk names a disk that no machine runs on, to be captured alone. What a machine would say of itself is given: the layers below the
	// disk (none below a full copy), and its resources. Only with DiskOnly.
	FromDisk  string    `json:"from_disk,omitempty"`
	Layers    []string  `json:"layers,omitempty"`
	Resources Resources `json:"resources,omitzero"`
	// ThenBlank refuses with disk_full before anything is captured, where what the checkpoints keep would leave no room to a blank disk,
	// with which the caller is to begin anew. Only with "paused".
	ThenBlank bool `json:"then_blank,omitempty"`
}

type CloneRequest struct {
	Fence                    // of the subject that gets the copy
	Source           Subject `json:"source"`
	SourceCheckpoint string  `json:"source_checkpoint_id"`
	CheckpointID     string  `json:"checkpoint_id"`
	// DiskOnly leaves the memory out, as in a CheckpointRequest: it may be damaged then. A copy with memory for another subject is refused where
	// it cannot be restored here.
	DiskOnly bool `json:"disk_only,omitempty"`
}

type StopRequest struct {
	Fence
	// MachineEpoch, when not zero, stops only a machine of that epoch: a stop that comes late must not hit its successor.
	MachineEpoch int64 `json:"machine_epoch,omitempty"`
}

type DeleteRequest struct {
	Fence
	Names []string `json:"names"`
}

// Machine is one sandbox that belongs to a subject.
type Machine struct {
	Subject     `json:"subject"`
	Epoch       int64         `json:"epoch"`
	Fence       int64         `json:"fence"`
	OperationID string        `json:"operation_id"`
	Slot        string        `json:"slot"`
	State       string        `json:"state"` // running, paused, frozen
	Disk        string        `json:"disk"`
	Address     string        `json:"address"`   // of the agent, host:port
	AgentKey    string        `json:"agent_key"` // Bearer key of this incarnation
	StartedAt   string        `json:"started_at"`
	Connected   bool          `json:"connected"` // its packets may leave
	Egress      EgressInForce `json:"egress"`
	FreezerFile string        `json:"freezer_file,omitempty"`
	Resources   Resources     `json:"resources"`
	Engine      string        `json:"engine"`         // version of the build that it runs under
	Protocol    int           `json:"agent_protocol"` // what its agent speaks, AgentProtocolMin to AgentProtocol
	// EngineRefused: it runs on, and no memory that it is saved to is restored under that build.
	EngineRefused bool `json:"engine_refused,omitempty"`
	// RefusedVolumes are those that its start or restore was told of and left out.
	RefusedVolumes []RefusedVolume `json:"refused_volumes,omitempty"`
}

// CheckpointInfo is what the manifest of a finished checkpoint says.
type CheckpointInfo struct {
	CheckpointID string `json:"checkpoint_id"`
	Subject      `json:"subject"`
	Epoch        int64  `json:"epoch"`
	Fence        int64  `json:"fence"`  // of the attempt that made it
	Engine       string `json:"engine"` // version string of the runsc build that wrote it, and that it restores under; "" of a disk alone
	// EngineKind is one of those below; "" of a disk alone.
	EngineKind string `json:"engine_kind,omitempty"`
	DiskOnly   bool   `json:"disk_only,omitempty"`
	SizeBytes  int64  `json:"size_bytes"`
	// DiskBytes is what the captured disk refers to, whatever else refers to it too; null of a checkpoint that an older release wrote.
	DiskBytes *int64    `json:"disk_bytes"`
	Disk      string    `json:"disk"` // the captured disk inside the checkpoint
	CreatedAt string    `json:"created_at"`
	PausedMS  int64     `json:"paused_ms"` // how long the guest stood still ("running" only)
	Layers    []string  `json:"layers"`
	Resources Resources `json:"resources"`
	// Counters are the machine's, once it was captured. In the answer of a checkpoint of a machine alone.
	Counters *MachineStats `json:"counters,omitempty"`
	// MemoryRefused is one of the reasons below, where its memory cannot be restored on this computer as it is now. In an inventory alone.
	MemoryRefused string `json:"memory_refused,omitempty"`
	// MissingFeatures are what this processor lacks of what the memory needs, where that is why and they are known. In an inventory alone.
	MissingFeatures []string `json:"missing_features,omitempty"`
}

// Kinds of engines. A memory restores under its own kind alone.
const EngineGVisor = "gvisor"

// Why a memory is not restored: in CheckpointInfo, and as `why` in the details of a refusal (checkpoint_incompatible, or checkpoint_corrupt of one
// that is damaged) beside its subject, its checkpoint_id, its missing_features as in CheckpointInfo, and whether disk_is_whole: a clone without
// memory can be booted from then.
const (
	RefusedServiceVersion = "service_version" // written by another version of hostd
	RefusedEngine         = "engine_refused"  // its engine is in the setting engines_refused
	RefusedProcessor      = "processor"       // its processor had features that this one lacks
	RefusedAgentProtocol  = "agent_protocol"  // its agent speaks what this version does not
	RefusedNotKept        = "engine_not_kept" // its engine or agent is not on this computer
	RefusedDamaged        = "damaged"         // its image has changed; in refusals alone
)

type Inventory struct {
	Instance   string `json:"instance"`
	BootID     string `json:"boot_id"` // of this run of hostd: events are counted from its start
	HostBootID string `json:"host_boot_id"`
	Engine     string `json:"engine"` // what is started anew runs under it
	// EngineRefused: nothing is started under Engine either.
	EngineRefused bool     `json:"engine_refused,omitempty"`
	Engines       []string `json:"engines"` // versions of every build that is kept here: a checkpoint of another one does not restore
	LastEvent     int64    `json:"last_event"`
	// Installation is whose the pool is, "" while it is nobody's.
	Installation string `json:"installation"`
	// HighestFence that any verb has ever named here, of deleted subjects too while they are remembered.
	HighestFence int64          `json:"highest_fence"`
	Machines     []Machine      `json:"machines"`
	Files        []SubjectFiles `json:"files"`
	Volumes      []VolumeHere   `json:"volumes"`      // with Files
	Slots        int            `json:"slots"`        // ready to be claimed
	FittedSlots  int            `json:"fitted_slots"` // of them, those that have the blank disk of a template already
	Shells       int            `json:"shells"`       // ready to be restored into
	Capacity     Capacity       `json:"capacity"`
	Resolver     Resolver       `json:"resolver"`
}

// Resolver is the process that answers machines' DNS questions.
type Resolver struct {
	Serving bool  `json:"serving"`
	Starts  int64 `json:"starts"` // since hostd began: more than one means that it died
}

// SubjectFiles is what lies in the pool for a subject.
type SubjectFiles struct {
	Subject     `json:"subject"`
	Fence       int64            `json:"fence"`
	Disks       []string         `json:"disks"`
	Checkpoints []CheckpointInfo `json:"checkpoints"`
	Quarantined []Quarantined    `json:"quarantined"`
}

// Capacity of this computer for machines.
type Capacity struct {
	CPUMillis     int   `json:"cpu_millis"`
	MemoryMiB     int   `json:"memory_mib"`
	HeadroomMiB   int   `json:"headroom_mib"` // of that memory, what each machine takes beyond what it is told
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
	// Counters are the machine's last; absent where nobody could read them.
	Counters *MachineStats `json:"counters,omitempty"`
}

// Leftovers is what the kernel or the disk holds under the instance's name and no slot of hostd's owns. What is there at two looks
// in a row is removed.
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
