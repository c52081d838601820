package wire

// Disks of sleeping workspaces, and of running ones what would take their machines long, are read by a process of their own, the agent's
// binary in a jail, which hostd starts on demand:
//
//	POST /disks/read            DiskReadRequest   -> DiskReader
//
// A reader answers the calls of an agent that read files, and two of its own:
//
//	POST /files/facts           FactsRequest      -> Facts
//	GET  /awake                                   -> 204
//
// It needs no fence, since it changes nothing: whatever is about to touch the disk ends the reader first.

// DiskReadRequest names the machine whose disk is read, or what a sleeping workspace would start from.
type DiskReadRequest struct {
	WorkspaceID string `json:"workspace_id"`
	// Tenant is who shares readers with its other workspaces; "" is the workspace alone.
	Tenant string `json:"tenant,omitempty"`
	// CheckpointID is its checkpoint; "" is a workspace that would start blank, and Layers are its template's then.
	CheckpointID string   `json:"checkpoint_id,omitempty"`
	Layers       []string `json:"layers,omitempty"`
	// MachineEpoch is of the machine that runs on the disk; 0 is a workspace that sleeps.
	MachineEpoch int64 `json:"machine_epoch,omitempty"`
	// DoubtedAddress is of a reader that did not answer: it is handed out again only if it answers hostd.
	DoubtedAddress string `json:"doubted_address,omitempty"`
}

// DiskReader is how the reader is asked: like an agent, over a unix socket. It ends by itself when nobody asks.
type DiskReader struct {
	Address  string `json:"address"` // path of the socket
	AgentKey string `json:"agent_key"`
	Epoch    int64  `json:"epoch"` // counts the readers of this hostd
}

// InMemory are the directories below the root that a machine mounts something on which is not of its tree: its kernel's memory, and at
// /tmp a directory that lies beside the tree.
var InMemory = []string{"tmp", "dev", "proc", "sys"}

// DetailInMemory is a detail of the 409 with which a reader refuses a path that leads into /tmp, /dev, /proc or /sys: what was there is
// what its machine has, and the directories of the disk below those mounts say nothing about it.
const DetailInMemory = "in_memory"

// DiskReaderSetup is what hostd tells a reader, as one line on DiskReaderSetupFD. That pipe stays open: its end is the reader's.
type DiskReaderSetup struct {
	MountPoint string `json:"mount_point"` // a directory that the disk can be mounted on, in the namespace the reader starts in
	Key        string `json:"key"`
	Epoch      int64  `json:"epoch"`
	IdleMS     int64  `json:"idle_ms"`
}

// Descriptors that a reader starts with.
const (
	DiskReaderSetupFD  = 3
	DiskReaderReadyFD  = 4 // it writes DiskReaderReady, or why it cannot serve
	DiskReaderSocketFD = 5 // listens
	DiskReaderMountFD  = 6 // the disk, mounted nowhere yet
	DiskReaderAgentFD  = 7 // the program itself
	DiskReaderReady    = "ready"
)
