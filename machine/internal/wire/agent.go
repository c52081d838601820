// Package wire defines the shapes of the messages between cell, hostd and agent. Its TypeScript counterpart is
// service/cell/links/.
package wire

// AgentPort is where the agent listens in the machine's own network. The guest shares that network, so every call
// carries this incarnation's key.
const AgentPort = 65100

// AgentProtocol rises with every new or changed call below. A machine restored from an old checkpoint runs an old
// agent, so hostd and cell support every version from AgentProtocolMin. service/cell/links/agent-protocol.ts says which
// version each call of the cell needs.
//
//	1: exec, files, activity
//	2: terminals, processes, git, browser, search, patch, changes; followed starts; keyed writes
//	3: a disk prepared in a sandbox before its claim
//	4: volumes
//	5: directories as tars
//	6: stdin that stays open
//	7: cursors of lists and searches, recursive lists
//	8: watches
//	9: file facts left to the host-side reader
//	10: listeners, lists of commands and of terminals
//
// Parameters that an older agent ignores need no number: sparse of /files/tar, on_disk_from of /changes.
const (
	AgentProtocol    = 10
	AgentProtocolMin = 1
	ProtocolFit      = 3
	ProtocolVolumes  = 4
)

// SpeaksTo reports whether an agent's protocol is supported.
func SpeaksTo(protocol int) bool { return protocol >= AgentProtocolMin && protocol <= AgentProtocol }

// Every call carries `Authorization: Bearer <key>` and `X-Berth-Epoch: <epoch>`. At an unknown key the agent reads that
// epoch's incarnation file, once; it refuses callers from the machine's own addresses before that.
// machine/internal/agent/server registers all calls; those with more than a JSON request and answer below:
//
//	POST   /fit, /claim           slot key; hostd only
//	POST   /volumes               hostd only
//	POST   /exec?follow=          -> 201 or 200 ExecRecord; 409 operation_id_reused; with follow=true a 201 may be frames
//	                              (see its content type) from offset 0, the record first
//	GET    /exec?state=&limit=&cursor=, /pty the same   newest first; state: running or ended
//	GET    /exec/{id}/output?stdout_offset=&stderr_offset=&follow=  -> frames
//	POST   /exec/{id}/stdin?offset=&close=     body: bytes, StdinBytesMax at most; 409 stdin_gap, stdin_closed
//	GET    /files?path=&offset=&length=&revision=   -> bytes; X-File-Size, 206 for a part; revision=true: X-File-Revision (up to 16 MiB)
//	PUT    /files?path=&append=&mode=&create_parents=   body: bytes, 7 MiB at most
//	DELETE /files?path=&recursive=             -> 204
//	GET    /files/tar?path=&sparse=            -> tar; incomplete if the body breaks off; sparse: holes in GNU tar's form
//	PUT    /files/tar?path=&create_parents=&links_out=   body: tar, TarBytesMax at most
//	GET    /files/watch?path=&recursive=&watch_id=&offset=   -> WatchEvents, one a line
//	GET    /files/stat?path=&revision=
//	GET    /files/list?path=&limit=&cursor=&recursive=
//	GET    /changes?path_prefix=&limit=&cursor=&hash=&summary=&on_disk_from=   of the disk against its template; layered disks only
//	POST   /pty                                -> 201 made, 200 existed
//	DELETE /pty/{id}                           SIGHUP, SIGKILL after the grace
//	POST   /pty/{id}/attach?offset=            -> 101, then frames both ways
//	GET    /listeners?port=, /processes?limit=
//	POST   /browser/screenshot -> PNG, /browser/content -> UTF-8
//
// PUT /files and POST /files/patch take `Idempotency-Key`: see machine/internal/agent/once.
//
// A refusal is AgentError with the gateway's HTTP status. Sessions, output and offsets live in the state directory of the workspace's
// disk: they outlive an agent restart, a suspend, a resume and a fork.

// Incarnation is the identity of an agent. hostd writes a file of this shape, with Key, for each epoch.
type Incarnation struct {
	WorkspaceID string `json:"workspace_id"`
	Epoch       int64  `json:"epoch"`
	Protocol    int    `json:"protocol"`
	// Key is optional in a claim: without it the agent reads the file of the claim's epoch. No answer contains it.
	Key      string       `json:"key,omitempty"`
	Hostname string       `json:"hostname,omitempty"`
	Limits   *GuestLimits `json:"limits,omitempty"`
	// RenewIdentity is set after a fork: new hostname, machine-id and boot id, no SSH host keys.
	RenewIdentity bool   `json:"renew_identity,omitempty"`
	Nameserver    string `json:"nameserver,omitempty"`
	// Volumes are all volumes of the guest from now on.
	Volumes []Volume `json:"volumes,omitempty"`
	// RefusedVolumes could not be mounted and are not in Volumes. Only in an answer.
	RefusedVolumes []RefusedVolume `json:"refused_volumes,omitempty"`
}

// GuestLimits are enforced by the agent inside the guest.
type GuestLimits struct {
	MemoryBytes int64 `json:"memory_bytes"`
	Processes   int   `json:"processes"`
	// OutputBytes bounds the retained output of all sessions together; the oldest ended sessions go first.
	OutputBytes int64 `json:"output_bytes"`
}

// FitRequest makes a sandbox's agent adopt an unassigned disk before its claim. It uses only nameserver and limits,
// which the claim may change.
type FitRequest struct {
	Incarnation
}

// ClaimRequest turns a warm sandbox into a workspace's machine. hostd has mounted the disk at claim/root and its state
// directory at claim/state. A fitted disk then belongs to the workspace.
type ClaimRequest struct {
	Incarnation
}

// ExecRequest is one command. The gateway has merged Env from every source in the request.
type ExecRequest struct {
	SessionID   string            `json:"session_id"`
	Fingerprint string            `json:"fingerprint"` // the same id with another fingerprint is operation_id_reused
	Argv        []string          `json:"argv"`
	Cwd         string            `json:"cwd"`
	User        string            `json:"user"`
	Env         map[string]string `json:"env"`
	StdinBase64 string            `json:"stdin_base64,omitempty"` // 1 MiB decoded at most, then stdin is closed
	StdinOpen   bool              `json:"stdin_open,omitempty"`   // stdin stays open: POST /exec/{id}/stdin sends more
	TimeoutMS   int64             `json:"timeout_ms,omitempty"`   // 0: none
	KillGraceMS int64             `json:"kill_grace_ms,omitempty"`
}

// ExecRecord is the state of one command. Times are RFC 3339, UTC, with milliseconds.
type ExecRecord struct {
	SessionID string   `json:"session_id"`
	Argv      []string `json:"argv"`
	Cwd       string   `json:"cwd"`
	User      string   `json:"user"`
	State     string   `json:"state"` // running, exited, failed_to_start, lost
	PID       *int     `json:"pid"`   // as the guest sees it; null if it never ran
	ExitCode  *int     `json:"exit_code"`
	// TermSignal is "SIGKILL" and so on if a signal ended the command; ExitCode is then -1.
	TermSignal *string `json:"term_signal"`
	TimedOut   bool    `json:"timed_out"`
	// Reason is "out_of_memory" or "process_limit" if the agent ended a process of a command that then failed.
	Reason    *string `json:"reason,omitempty"`
	StartedAt *string `json:"started_at"`
	EndedAt   *string `json:"ended_at"`
	Error     *string `json:"error"`
	// Bytes written so far, and the first byte still retained.
	StdoutBytes     int64 `json:"stdout_bytes"`
	StderrBytes     int64 `json:"stderr_bytes"`
	StdoutAvailable int64 `json:"stdout_available_from"`
	StderrAvailable int64 `json:"stderr_available_from"`
	// Stdin is set if the command was started with StdinOpen.
	Stdin *Stdin `json:"stdin,omitempty"`
}

// ExecListed holds only what the command's record on disk has.
type ExecListed struct {
	SessionID     string   `json:"session_id"`
	Argv          []string `json:"argv"`
	ArgvTruncated bool     `json:"argv_truncated"`
	Cwd           string   `json:"cwd"`
	User          string   `json:"user"`
	State         string   `json:"state"`
	PID           *int     `json:"pid"`
	ExitCode      *int     `json:"exit_code"`
	TermSignal    *string  `json:"term_signal"`
	TimedOut      bool     `json:"timed_out"`
	Reason        *string  `json:"reason,omitempty"`
	StartedAt     *string  `json:"started_at"`
	EndedAt       *string  `json:"ended_at"`
	Error         *string  `json:"error"` // only the beginning of a long error
	StdoutBytes   int64    `json:"stdout_bytes"`
	StderrBytes   int64    `json:"stderr_bytes"`
	Stdin         *Stdin   `json:"stdin,omitempty"`
}

// ExecList is one page. NextCursor is null on the last.
type ExecList struct {
	Commands   []ExecListed `json:"commands"`
	NextCursor *string      `json:"next_cursor"`
}

// Stdin is the progress of a command's stdin. Offset counts bytes in its pipe, which the command may not have read.
type Stdin struct {
	Offset int64 `json:"offset"`
	Open   bool  `json:"open"`
}

// StdinBytesMax bounds one POST /exec/{id}/stdin.
const StdinBytesMax = 1 << 20

// PtyRequest is one terminal. Without Argv it runs the user's login shell.
type PtyRequest struct {
	SessionID   string            `json:"session_id"`
	Fingerprint string            `json:"fingerprint"`
	Argv        []string          `json:"argv"`
	Cwd         string            `json:"cwd"`
	User        string            `json:"user"`
	Env         map[string]string `json:"env"`
	PtySize
}

// PtySize is in characters.
type PtySize struct {
	Cols uint16 `json:"cols"`
	Rows uint16 `json:"rows"`
}

// PtyInput is typed input, FrameDataMax bytes at most.
type PtyInput struct {
	Data []byte `json:"data"`
}

// PtyRecord is an ExecRecord with one stream and a size.
type PtyRecord struct {
	SessionID string   `json:"session_id"`
	Argv      []string `json:"argv"` // the login shell if the request had none
	Cwd       string   `json:"cwd"`
	User      string   `json:"user"`
	State     string   `json:"state"`
	PID       *int     `json:"pid"`
	PtySize
	ExitCode   *int    `json:"exit_code"`
	TermSignal *string `json:"term_signal"`
	StartedAt  *string `json:"started_at"`
	EndedAt    *string `json:"ended_at"`
	Error      *string `json:"error"`
	Bytes      int64   `json:"output_bytes"`
	Available  int64   `json:"output_available_from"`
}

type PtyListed struct {
	SessionID     string   `json:"session_id"`
	Argv          []string `json:"argv"`
	ArgvTruncated bool     `json:"argv_truncated"`
	Cwd           string   `json:"cwd"`
	User          string   `json:"user"`
	State         string   `json:"state"`
	PID           *int     `json:"pid"`
	PtySize
	ExitCode   *int    `json:"exit_code"`
	TermSignal *string `json:"term_signal"`
	StartedAt  *string `json:"started_at"`
	EndedAt    *string `json:"ended_at"`
	Error      *string `json:"error"`
	Bytes      int64   `json:"output_bytes"`
}

type PtyList struct {
	Terminals  []PtyListed `json:"terminals"`
	NextCursor *string     `json:"next_cursor"`
}

// A frame: kind (1 byte), zero (3 bytes), length of the data (uint32, big endian), offset (uint64, big endian), data.
const (
	FrameStdout    = 1 // offset: of the first byte
	FrameStderr    = 2
	FrameExit      = 3 // data: ExecRecord as JSON, argv null if the record would not fit; the last frame
	FrameHeartbeat = 4 // every 15 s of silence; no data
	FrameError     = 5 // data: AgentError as JSON; the last frame
	FrameRecord    = 6 // data: ExecRecord as JSON; only the first frame of a start that is followed
	// An attached terminal sends FrameStdout, and FrameExit with a PtyRecord. It accepts the next two frames.
	FrameInput   = 16 // data: typed input
	FrameResize  = 17 // data: columns, rows (uint16 each, big endian)
	FrameHeader  = 16
	FrameDataMax = 64 << 10
)

// Activity feeds the idle clock with the running commands that were started through exec.
type Activity struct {
	RunningSessions int `json:"running_sessions"`
	// BusyUntil is the latest end over the running commands, each one hour or its own timeout; null if none runs.
	BusyUntil *string `json:"busy_until"`
	// LastEndedAt is where idleness begins, even if no caller waited for the command; null if none has ended.
	LastEndedAt *string `json:"last_ended_at"`
	// Commands are the 16 with the latest BusyUntil.
	Commands []BusyCommand `json:"commands"`
}

// BusyCommand prevents an idle suspend.
type BusyCommand struct {
	SessionID string  `json:"session_id"`
	StartedAt *string `json:"started_at"`
	BusyUntil *string `json:"busy_until"`
}

// AgentError is a refusal. Status, code and reason are the gateway's own (Cell, "Errors").
type AgentError struct {
	Code    string         `json:"code"`
	Reason  string         `json:"reason,omitempty"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
}

// GuestVolumesRequest names all volumes that the guest is to have.
type GuestVolumesRequest struct {
	Volumes []Volume `json:"volumes"`
	// EndUsers kills the users of a removed volume; otherwise that volume stays and is reported as busy.
	EndUsers bool `json:"end_users,omitempty"`
}

// GuestVolumes names the mount slots that are not as requested.
type GuestVolumes struct {
	Busy    []int           `json:"busy"`
	Refused []RefusedVolume `json:"refused"`
}

const (
	WhyNotADirectory = "not_a_directory" // the path, or a part of it, is not a directory
	WhyOverALink     = "over_a_link"     // a part of the path is a link
	WhyMount         = "mount_failed"
	WhyNotHere       = "not_here" // the computer has no such volume
)

type RefusedVolume struct {
	Place int    `json:"place"`
	Why   string `json:"why"`
}
