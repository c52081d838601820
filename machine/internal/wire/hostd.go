package wire

// hostd answers HTTP over a unix socket. Every verb that changes something carries a Fence; hostd does one thing at a time for a
// workspace, remembers the highest fence it has seen (on disk), refuses a lower one (409 `fenced`), and runs a verb that is
// asked again with the same fence and step once: the second caller joins the first or gets its remembered answer.
//
//	POST /machines/start        StartRequest      -> Machine   blank disk, or a new attempt on a named disk
//	POST /machines/restore      RestoreRequest    -> Machine   from a checkpoint
//	POST /machines/connect      Fenced            -> {}        packets may leave; of a started or restored machine none do before
//	POST /machines/checkpoint   CheckpointRequest -> CheckpointInfo
//	POST /machines/unpause      Fenced            -> {}        after a checkpoint that kept the guest paused
//	POST /machines/stop         StopRequest       -> {}        idempotent; no instruction of the guest runs after it. Mounts, cgroup, network
//	                                                         go behind the answer, before the next verb that needs them gone
//	POST /machines/freeze|thaw  Fenced            -> {}        cgroup freezer
//	POST /checkpoints/clone     CloneRequest      -> CheckpointInfo
//	POST /checkpoints/delete    DeleteRequest     -> {}
//	POST /disks/delete          DeleteRequest     -> {}
//	POST /workspaces/fence      Fenced            -> {}        from now on lower fences are refused; waits for what still runs
//	POST /workspaces/delete     Fenced            -> {}        machine stopped, every file gone
//	POST /disks/read            DiskReadRequest   -> DiskReader   disk.go; carries no fence
//	POST /disks/measure         MeasureRequest    -> Measures  what each workspace's quota counts; carries no fence
//	GET  /inventory             -> Inventory
//	GET  /events?after=N        -> NDJSON of Event, kept open, a blank line every 15 s
//	GET  /stats                 -> Stats
//	GET  /leftovers             -> Leftovers  what carries this instance's name and belongs to nothing
//	GET  /healthz               -> {}
//
// A refusal is HostError. Codes: bad_request 400, not_found 404, fenced 409, not_running 409, already_running 409,
// no_space 507, checkpoint_failed 500, checkpoint_corrupt 422, checkpoint_incompatible 422, layer_missing 404,
// invalid_resources 422, no_capacity 503, start_failed 500, restore_failed 500, internal 500.

// Fence says for whom a verb speaks.
type Fence struct {
	WorkspaceID string `json:"workspace_id"`
	OperationID string `json:"operation_id"`
	Step        string `json:"step"`
	Epoch       int64  `json:"epoch"`
	Fence       int64  `json:"fence"` // grows with every attempt over all operations of a workspace
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
	// FromLayer names a checkpoint of a disk alone, this workspace's or another's, to start from a snapshot of instead.
	FromLayer *CheckpointName `json:"from_layer,omitempty"`
	// Connect lets its packets leave at once, as a connect afterwards would: nothing of the guest's runs in it before its first command.
	Connect bool `json:"connect,omitempty"`
}

type CheckpointName struct {
	WorkspaceID  string `json:"workspace_id"`
	CheckpointID string `json:"checkpoint_id"`
}

type RestoreRequest struct {
	Fence
	Resources     Resources `json:"resources"`
	Hostname      string    `json:"hostname"`
	CheckpointID  string    `json:"checkpoint_id"`
	RenewIdentity bool      `json:"renew_identity,omitempty"` // a fork: hostname, machine-id, SSH host keys
}

type CheckpointRequest struct {
	Fence
	CheckpointID string `json:"checkpoint_id"`
	// IntoWorkspaceID owns the checkpoint; a fork captures straight into its target. "" is the workspace itself.
	IntoWorkspaceID string `json:"into_workspace_id,omitempty"`
	IntoFence       int64  `json:"into_fence,omitempty"`
	// Then says what the guest does once memory and disk are captured: "paused" (a suspend: the caller commits, then
	// stops or unpauses) or "running" (a fork or snapshot: it runs again before the image is synced).
	Then string `json:"then"`
	// DiskOnly leaves the memory out: machines start from such a checkpoint, on any engine, and none is restored. Only with "running".
	DiskOnly bool `json:"disk_only,omitempty"`
}

type CloneRequest struct {
	Fence                    // of the workspace that gets the copy
	SourceWorkspaceID string `json:"source_workspace_id"`
	SourceCheckpoint  string `json:"source_checkpoint_id"`
	CheckpointID      string `json:"checkpoint_id"`
	// DiskOnly leaves the memory out, as in a CheckpointRequest.
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

// Machine is one sandbox that belongs to a workspace.
type Machine struct {
	WorkspaceID string    `json:"workspace_id"`
	Epoch       int64     `json:"epoch"`
	Fence       int64     `json:"fence"`
	OperationID string    `json:"operation_id"`
	Slot        string    `json:"slot"`
	State       string    `json:"state"` // running, paused, frozen
	Disk        string    `json:"disk"`
	Address     string    `json:"address"`   // of the agent, host:port
	AgentKey    string    `json:"agent_key"` // Bearer key of this incarnation
	StartedAt   string    `json:"started_at"`
	Connected   bool      `json:"connected"` // its packets may leave
	FreezerFile string    `json:"freezer_file,omitempty"`
	Resources   Resources `json:"resources"`
	Engine      string    `json:"engine"`         // version of the build that it runs under
	Protocol    int       `json:"agent_protocol"` // what its agent speaks, AgentProtocolMin to AgentProtocol
}

// CheckpointInfo is what the manifest of a finished checkpoint says.
type CheckpointInfo struct {
	CheckpointID string    `json:"checkpoint_id"`
	WorkspaceID  string    `json:"workspace_id"`
	Epoch        int64     `json:"epoch"`
	Engine       string    `json:"engine"` // version string of the runsc build that wrote it, and that it restores under; "" of a disk alone
	DiskOnly     bool      `json:"disk_only,omitempty"`
	SizeBytes    int64     `json:"size_bytes"`
	Disk         string    `json:"disk"` // the captured disk inside the checkpoint
	CreatedAt    string    `json:"created_at"`
	PausedMS     int64     `json:"paused_ms"` // how long the guest stood still ("running" only)
	Layers       []string  `json:"layers"`
	Resources    Resources `json:"resources"`
}

type Inventory struct {
	Instance    string           `json:"instance"`
	BootID      string           `json:"boot_id"` // of this run of hostd: events are counted from its start
	HostBootID  string           `json:"host_boot_id"`
	Engine      string           `json:"engine"`  // what is started anew runs under it
	Engines     []string         `json:"engines"` // versions of every build that is kept here: a checkpoint of another one does not restore
	LastEvent   int64            `json:"last_event"`
	Machines    []Machine        `json:"machines"`
	Workspaces  []WorkspaceFiles `json:"workspaces"`
	Slots       int              `json:"slots"`        // ready to be claimed
	FittedSlots int              `json:"fitted_slots"` // of them, those that have the blank disk of a template already
	Shells      int              `json:"shells"`       // ready to be restored into
	Capacity    Capacity         `json:"capacity"`
}

type WorkspaceFiles struct {
	WorkspaceID string           `json:"workspace_id"`
	Fence       int64            `json:"fence"`
	Disks       []string         `json:"disks"`
	Checkpoints []CheckpointInfo `json:"checkpoints"`
}

// Capacity of this computer for machines.
type Capacity struct {
	CPUMillis     int   `json:"cpu_millis"`
	MemoryMiB     int   `json:"memory_mib"`
	DiskGiB       int   `json:"disk_gib"`
	PoolBytes     int64 `json:"pool_bytes"`
	PoolFreeBytes int64 `json:"pool_free_bytes"`
	ReserveBytes  int64 `json:"reserve_bytes"`
}

type Event struct {
	Seq         int64  `json:"seq"`
	BootID      string `json:"boot_id"`
	Kind        string `json:"kind"` // died
	WorkspaceID string `json:"workspace_id"`
	Epoch       int64  `json:"epoch"`
	Fence       int64  `json:"fence"`
	Reason      string `json:"reason"` // killed, out_of_memory
	At          string `json:"at"`
}

// Stats are samples of resident machines, in whole units since the machine started.
type Stats struct {
	Machines []MachineStats `json:"machines"`
}

type MachineStats struct {
	WorkspaceID string `json:"workspace_id"`
	Epoch       int64  `json:"epoch"`
	Fence       int64  `json:"fence"` // with the workspace's id it names the machine whose counters these are
	CPUUsec     int64  `json:"cpu_usec"`
	MemoryBytes int64  `json:"memory_bytes"`
	DiskBytes   int64  `json:"disk_bytes"`
	RxBytes     int64  `json:"rx_bytes"`
	TxBytes     int64  `json:"tx_bytes"`
}

// MeasureRequest names at most 500 workspaces.
type MeasureRequest struct {
	WorkspaceIDs []string `json:"workspace_ids"`
}

// Measures has no disk of a workspace that has no files here.
type Measures struct {
	Disks []DiskMeasure `json:"disks"`
}

type DiskMeasure struct {
	WorkspaceID string `json:"workspace_id"`
	DiskBytes   int64  `json:"disk_bytes"` // as in MachineStats
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
