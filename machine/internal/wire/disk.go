package wire

// Disks of hibernated workspaces are read by a separate process, the agent's binary in a jail, which hostd starts on demand. It also
// reads disks of running machines for queries that would take the machine long:
//
//	POST /disks/read            DiskReadRequest   -> DiskReader
//
// A reader serves the agent's read-only file calls, and two of its own:
//
//	POST /files/facts           FactsRequest      -> Facts
//	GET  /awake                                   -> 204
//
// It needs no fencing token, since it changes nothing: a verb that changes the disk ends the reader first.

// DiskReadRequest names the machine whose disk is read, or the state that a hibernated workspace would start from.
type DiskReadRequest struct {
	WorkspaceID string `json:"workspace_id"`
	// Tenant shares its readers among its workspaces; "" is the workspace alone.
	Tenant string `json:"tenant,omitempty"`
	// CheckpointID is the workspace's checkpoint; "" is a workspace that would start blank, from the template's Layers.
	CheckpointID string   `json:"checkpoint_id,omitempty"`
	Layers       []string `json:"layers,omitempty"`
	// MachineEpoch is the epoch of the machine that runs on the disk; 0 is a hibernated workspace.
	MachineEpoch int64 `json:"machine_epoch,omitempty"`
	// DoubtedAddress is a reader that did not answer: it is returned again only if it answers hostd.
	DoubtedAddress string `json:"doubted_address,omitempty"`
}

// DiskReader is how to call the reader: like an agent, over a unix socket. It ends itself when idle.
type DiskReader struct {
	Address  string `json:"address"` // path of the socket
	AgentKey string `json:"agent_key"`
	Epoch    int64  `json:"epoch"` // number of the reader in this hostd
}

// InMemory are directories below the root over which a machine mounts something: kernel memory, and at /tmp a directory outside the tree.
var InMemory = []string{"tmp", "dev", "proc", "sys"}

// DetailInMemory is a detail of the 409 for a path below /tmp, /dev, /proc or /sys. Such files exist only in the machine; the disk's
// directories below those mounts are not what the guest sees.
const DetailInMemory = "in_memory"

// DiskReaderSetup is the line that hostd writes to DiskReaderSetupFD. The reader ends when that pipe closes.
type DiskReaderSetup struct {
	MountPoint string `json:"mount_point"` // a directory in the reader's initial namespace on which it may mount the disk
	Key        string `json:"key"`
	Epoch      int64  `json:"epoch"`
	IdleMS     int64  `json:"idle_ms"`
}

// Descriptors that a reader starts with.
const (
	DiskReaderSetupFD  = 3
	DiskReaderReadyFD  = 4 // the reader writes DiskReaderReady, or why it cannot serve
	DiskReaderSocketFD = 5 // listening socket
	DiskReaderMountFD  = 6 // the disk, as a detached mount
	DiskReaderAgentFD  = 7 // the program itself
	DiskReaderReady    = "ready"
)
