// Package wire defines the messages that cell, hostd and agent exchange. It contains only shapes. The TypeScript counterpart is
// service/cell/host/.
package wire

// AgentPort is where the agent listens in the machine's own network. The guest shares that network, so every call carries the key of this
// incarnation.
const AgentPort = 65100

// AgentProtocol is the version of the calls below. Every new or changed call raises it and is listed here. A machine restored from an old
// checkpoint runs an old agent, so hostd and cell support every version from AgentProtocolMin on. service/cell/host/agent-protocol.ts
// says what the cell asks of which.
//
//	1: exec, files, activity
//	2: terminals, processes, git, browser, search, patch and changes; a start that is followed; keyed writes
//	3: a disk is prepared in a sandbox before its claim
//	4: volumes
//	5: directories as tars
//	6: stdin that stays open
//	7: lists and searches that go on from a cursor, recursive lists
//	8: watches of directories
//	9: searches and pages of changes that leave file facts to the host-side reader
//	10: addresses on which something listens, lists of commands and of terminals
//
// Parameters that an older agent ignores need no number: sparse of /files/tar, on_disk_from of /changes.
const (
	AgentProtocol    = 10
	AgentProtocolMin = 1
	ProtocolFit      = 3
	ProtocolVolumes  = 4
)

// SpeaksTo reports whether an agent's protocol version is supported.
func SpeaksTo(protocol int) bool { return protocol >= AgentProtocolMin && protocol <= AgentProtocol }

// Every call carries `Authorization: Bearer <key>` and `X-Berth-Epoch: <epoch>`. A key that the agent does not know makes
// it read the incarnation file of that epoch, once; callers from the machine's own addresses are refused before that.
//
//	GET    /incarnation                         -> Incarnation
//	POST   /fit            FitRequest           -> Incarnation        (slot key; hostd only)
//	POST   /claim          ClaimRequest         -> Incarnation        (slot key; hostd only)
//	POST   /exec?follow=   ExecRequest          -> 201 or 200 ExecRecord; 409 operation_id_reused; with follow=true a 201 may be frames
//	                                               from offset 0, the record first, which its content type says
//	GET    /exec?state=&limit=&cursor=          -> ExecList, newest first; state: running or ended
//	GET    /exec/{id}                           -> ExecRecord; 404 session_not_found
//	GET    /exec/{id}/output?stdout_offset=&stderr_offset=&follow=  -> frames (below)
//	POST   /exec/{id}/signal   {"signal":"SIGTERM"}  -> ExecRecord
//	POST   /exec/{id}/cancel                    -> ExecRecord
//	POST   /exec/{id}/stdin?offset=&close=      -> Stdin; body: bytes, StdinBytesMax at most; 409 stdin_gap, stdin_closed
//	GET    /files?path=&offset=&length=&revision=    -> bytes; X-File-Size, 206 for a part; revision=true: X-File-Revision (files of 16 MiB at most)
//	PUT    /files?path=&append=&mode=&create_parents= -> WriteResult; body: bytes, 7 MiB at most
//	DELETE /files?path=&recursive=              -> 204
//	GET    /files/tar?path=&sparse=             -> bytes of a tar; a body that breaks off is not whole; sparse: holes as GNU tar has them, not as zeros
//	GET    /files/watch?path=&recursive=&watch_id=&offset= -> WatchEvents, one a line
//	PUT    /files/tar?path=&create_parents=&links_out= -> TarResult; body: a tar, TarBytesMax at most
//	GET    /files/stat?path=&revision=          -> FileInfo
//	GET    /files/list?path=&limit=&cursor=&recursive= -> FileList
//	POST   /files/mkdir    MkdirRequest         -> 201 FileInfo
//	POST   /files/move     MoveRequest          -> FileInfo
//	POST   /files/patch    PatchRequest         -> PatchResult
//	POST   /files/search   SearchRequest        -> SearchResult
//	GET    /changes?path_prefix=&limit=&cursor=&hash=&summary=&on_disk_from= -> Changes; of the disk against its template, layered disks only
//	POST   /pty           PtyRequest            -> PtyRecord (201 made, 200 existed)
//	GET    /pty?state=&limit=&cursor=           -> PtyList, as that of commands
//	GET    /pty/{id}                            -> PtyRecord
//	DELETE /pty/{id}                            -> PtyRecord (SIGHUP, SIGKILL after the grace)
//	POST   /pty/{id}/resize PtySize             -> PtyRecord
//	POST   /pty/{id}/input  PtyInput            -> PtyRecord
//	POST   /pty/{id}/attach?offset=             -> 101, then frames both ways (see FrameInput)
//	GET    /listeners?port=                     -> Listeners
//	GET    /processes?limit=                    -> ProcessList
//	POST   /processes/{pid}/signal {"signal":"SIGTERM"} -> 204; 404 process_not_found
//	POST   /git/clone      GitCloneRequest      -> 201 GitHead
//	POST   /git/status     GitRequest           -> GitStatus
//	POST   /git/commit     GitCommitRequest     -> 201 GitHead
//	POST   /browser/screenshot BrowserRequest   -> bytes of a PNG
//	POST   /browser/content    BrowserRequest   -> bytes, UTF-8
//	POST   /volumes        GuestVolumesRequest  -> GuestVolumes      (hostd only)
//	GET    /activity                            -> Activity
//
// PUT /files and POST /files/patch take `Idempotency-Key`: see machine/internal/agent/once.
//
// A refusal is AgentError with the HTTP status that the gateway will use. Sessions, output and their offsets outlive the
// agent's own restart, a suspend, a resume and a fork: they live in the state directory of the workspace's disk.

// Incarnation is the identity of an agent. hostd writes a file of this shape, with Key set, for each epoch.
type Incarnation struct {
	WorkspaceID string `json:"workspace_id"`
	Epoch       int64  `json:"epoch"`
	Protocol    int    `json:"protocol"`
	// Key is set in hostd's file and optionally in a claim; without it the agent reads the file of the claim's epoch. An answer never
	// contains it.
	Key      string       `json:"key,omitempty"`
	Hostname string       `json:"hostname,omitempty"`
	Limits   *GuestLimits `json:"limits,omitempty"`
	// RenewIdentity is set after a fork: the agent makes a new hostname, machine-id and boot id, and removes SSH host keys.
	RenewIdentity bool `json:"renew_identity,omitempty"`
	// Nameserver goes into the guest's /etc/resolv.conf.
	Nameserver string `json:"nameserver,omitempty"`
	// Volumes are all volumes of the guest from this incarnation on; those that cannot be mounted are omitted.
	Volumes []Volume `json:"volumes,omitempty"`
	// RefusedVolumes are the omitted volumes. Only in an answer.
	RefusedVolumes []RefusedVolume `json:"refused_volumes,omitempty"`
}

// GuestLimits are enforced by the agent inside the guest.
type GuestLimits struct {
	MemoryBytes int64 `json:"memory_bytes"`
	Processes   int   `json:"processes"`
	// OutputBytes bounds the retained output of all sessions together; the oldest ended sessions go first.
	OutputBytes int64 `json:"output_bytes"`
}

// FitRequest makes a sandbox's agent adopt an unassigned disk before its claim. Only nameserver and limits of the incarnation count, and
// the claim may change them.
type FitRequest struct {
	Incarnation
}

// ClaimRequest turns a warm sandbox into a workspace's machine. hostd has mounted the workspace's disk at claim/root and its state
// directory at claim/state. A disk that was prepared before belongs to the workspace from then on.
type ClaimRequest struct {
	Incarnation
}

// ExecRequest is one command. Env is the whole request part of the environment, already merged by the gateway.
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

// ExecRecord is the state of one command. Times are RFC 3339 with milliseconds in UTC.
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
	// Offsets: bytes written so far, and the first byte still retained.
	StdoutBytes     int64 `json:"stdout_bytes"`
	StderrBytes     int64 `json:"stderr_bytes"`
	StdoutAvailable int64 `json:"stdout_available_from"`
	StderrAvailable int64 `json:"stderr_available_from"`
	// Stdin is set for commands that were started with StdinOpen.
	Stdin *Stdin `json:"stdin,omitempty"`
}

// ExecListed is a command in a list, with data from its record on the disk only.
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

// Stdin is the progress of a command's stdin. Offset counts the bytes in its pipe; the command may not have read them yet.
type Stdin struct {
	Offset int64 `json:"offset"`
	Open   bool  `json:"open"`
}

// StdinBytesMax bounds the body of one POST /exec/{id}/stdin.
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

// PtySize is the size of a terminal's window, in characters.
type PtySize struct {
	Cols uint16 `json:"cols"`
	Rows uint16 `json:"rows"`
}

// PtyInput is typed input, base64 on the wire, FrameDataMax bytes at most.
type PtyInput struct {
	Data []byte `json:"data"`
}

// PtyRecord is the state of one terminal: an ExecRecord with one stream and a size.
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

// Output is a stream of frames, each: kind (1 byte), reserved (3 bytes, zero), length (uint32, big endian), offset (uint64, big endian),
// then `length` bytes. A frame holds 64 KiB of data at most.
const (
	FrameStdout    = 1 // offset: of the first byte
	FrameStderr    = 2
	FrameExit      = 3 // data: ExecRecord as JSON, argv null if the record would not fit; the last frame
	FrameHeartbeat = 4 // every 15 s of silence; no data
	FrameError     = 5 // data: AgentError as JSON; the last frame
	FrameRecord    = 6 // data: ExecRecord as JSON; only the first frame of a start that is followed
	// An attached terminal sends its output as FrameStdout and its end as FrameExit with a PtyRecord. It accepts the next two frames.
	FrameInput   = 16 // data: typed input
	FrameResize  = 17 // data: columns, rows (uint16 each, big endian)
	FrameHeader  = 16
	FrameDataMax = 64 << 10
)

// Activity answers the idle clock: running commands that were started through exec, and until when each keeps the workspace awake.
type Activity struct {
	RunningSessions int `json:"running_sessions"`
	// BusyUntil is the latest end over the running commands, each one hour or its own timeout; null if none runs.
	BusyUntil *string `json:"busy_until"`
	// LastEndedAt is the end of the last command: idleness counts from then, even if no caller waited for it; null if none has ended.
	LastEndedAt *string `json:"last_ended_at"`
	// Commands are those with the latest BusyUntil, at most 16.
	Commands []BusyCommand `json:"commands"`
}

// BusyCommand is a command that prevents an idle suspend.
type BusyCommand struct {
	SessionID string  `json:"session_id"`
	StartedAt *string `json:"started_at"`
	BusyUntil *string `json:"busy_until"`
}

// AgentError is a refusal of the agent. Status, code and reason are the gateway's own (Cell, "Errors").
type AgentError struct {
	Code    string         `json:"code"`
	Reason  string         `json:"reason,omitempty"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
}

// GuestVolumesRequest names all volumes that the guest is to have.
type GuestVolumesRequest struct {
	Volumes []Volume `json:"volumes"`
	// EndUsers kills the processes that use a volume to be removed; otherwise that volume stays and is reported as busy.
	EndUsers bool `json:"end_users,omitempty"`
}

// GuestVolumes is the result. Mount slots in neither list are as requested.
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
