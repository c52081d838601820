package wire

// Process has the numbers that the guest sees. Invalid UTF-8 becomes U+FFFD.
type Process struct {
	PID  int    `json:"pid"`
	PPID int    `json:"ppid"` // 0: started by the agent
	User string `json:"user"` // decimal uid if the guest has no name for it
	Name string `json:"name"`
	// Command is argv, cut at ProcessCommandBytesMax bytes; empty for a zombie.
	Command          []string `json:"command"`
	CommandTruncated bool     `json:"command_truncated"`
	State            string   `json:"state"` // running, sleeping, waiting, stopped, traced, zombie, dead, unknown
	Threads          int      `json:"threads"`
	CPUMS            int64    `json:"cpu_ms"` // user and system together
	MemoryBytes      int64    `json:"memory_bytes"`
	StartedAt        string   `json:"started_at"`
	SessionID        *string  `json:"session_id"` // of the command that it belongs to
}

type ProcessList struct {
	Processes []Process `json:"processes"`
	Truncated bool      `json:"truncated"`
}

const ProcessCommandBytesMax = 4096

const ProcessesMax = 4096
