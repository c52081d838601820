package wire

// A separate process reads disks of hibernated workspaces: the agent's binary in a jail, started on demand. It also
// answers long queries about running machines, instead of their agents. It serves the agent's read-only file calls,
// /files/facts and /awake. It needs no fencing token: it changes nothing, and a verb that changes the disk ends it first.

// Here the guest sees other mounts than the disk: kernel memory, or at /tmp a directory outside the tree.
var InMemory = []string{"tmp", "dev", "proc", "sys"}

// DetailInMemory is in the 409 for a path below InMemory, where the guest does not see the disk's directories.
const DetailInMemory = "in_memory"

// DiskReaderSetup is one line on DiskReaderSetupFD. The reader ends when that pipe is closed.
type DiskReaderSetup struct {
	MountPoint string `json:"mount_point"` // a directory in the reader's initial namespace on which it may mount the disk
	Key        string `json:"key"`
	Epoch      int64  `json:"epoch"`
	IdleMS     int64  `json:"idle_ms"`
}

// These are the descriptors with which a reader starts.
const (
	DiskReaderSetupFD  = 3
	DiskReaderReadyFD  = 4 // on it the reader writes DiskReaderReady, or why it cannot serve
	DiskReaderSocketFD = 5 // listening socket
	DiskReaderMountFD  = 6 // the disk, as a detached mount
	DiskReaderAgentFD  = 7 // the program itself
	DiskReaderReady    = "ready"
)
