package wire

// Process is one process of the guest, with its numbers as the guest sees them. Text that is not UTF-8 holds U+FFFD in its place.
type Process struct {
	PID  int    `json:"pid"`
	PPID int    `json:"ppid"` // 0: started by the agent
	User string `json:"user"` // decimal uid when the guest has no name for it
	Name string `json:"name"`
	// Command is its argv, of which the first ProcessCommandBytesMax bytes are told; empty for a zombie.
	Command          []string `json:"command"`
	CommandTruncated bool     `json:"command_truncated"`
	State            string   `json:"state"` // running, sleeping, waiting, stopped, traced, zombie, dead, unknown
	Threads          int      `json:"threads"`
	CPUMS            int64    `json:"cpu_ms"` // user and system together
	MemoryBytes      int64    `json:"memory_bytes"`
	StartedAt        string   `json:"started_at"`
	SessionID        *string  `json:"session_id"` // of the command that it belongs to
}

// ProcessList is in the order of pids.
type ProcessList struct {
	Processes []Process `json:"processes"`
	Truncated bool      `json:"truncated"`
}

// ProcessCommandBytesMax is how much of a command line is told.
const ProcessCommandBytesMax = 4096

// ProcessesMax is how many processes a list holds at most.
const ProcessesMax = 4096
