// Package wire defines the messages between cell, hostd and agent. contract/internal has those that the cell sends or
// reads; `npm run wire` writes the generated files from it. Only hostd and agent use the structs written here.
package wire

// AgentPort is in the guest's network, so every call carries the key of this incarnation.
const AgentPort = 65100

// AgentProtocol rises with every new or changed call. A machine from an old checkpoint runs an old agent, so hostd and
// cell support all versions from AgentProtocolMin (contract/internal/agent.ts).
//
//	1: exec, files, activity
//	2: terminals, processes, git, browser, search, patch, changes; followed starts; keyed writes
//	3: a disk prepared before its claim
//	4: volumes
//	5: directories as tars
//	6: open stdin
//	7: cursors, recursive lists
//	8: watches
//	9: file facts left to the host-side reader
//	10: listeners, lists of commands and terminals
//
// Parameters that an older agent ignores need no number: sparse of /files/tar, on_disk_from of /changes.
const (
	ProtocolFit     = 3
	ProtocolVolumes = 4
)

// SpeaksTo reports whether hostd supports an agent's protocol version.
func SpeaksTo(protocol int) bool { return protocol >= AgentProtocolMin && protocol <= AgentProtocol }

// Every call carries `Authorization: Bearer <key>` and `X-Berth-Epoch: <epoch>`. For an unknown key the agent reads
// that epoch's incarnation file, once; it first refuses callers from the machine's own addresses.
// machine/internal/agent/server registers all calls. Not plain JSON:
//
//	/fit, /claim, /volumes       hostd only; the first two by slot key
//	POST /exec?follow=           201 or 200 ExecRecord; with follow=true a 201 may be frames
//	                             (see its content type) from offset 0, the record first
//	GET  /exec, /pty             newest first; ?state=running or ended
//	GET  /exec/{id}/output       frames
//	POST /exec/{id}/stdin        body: StdinBytesMax bytes at most; 409 stdin_gap, stdin_closed
//	GET  /files                  X-File-Size, 206 for a part; ?revision=true: X-File-Revision (up to 16 MiB)
//	PUT  /files                  body: 7 MiB at most
//	GET  /files/tar              incomplete if the body breaks off; ?sparse: holes in GNU tar's form
//	PUT  /files/tar              body: TarBytesMax at most
//	GET  /files/watch            WatchEvents, one a line
//	GET  /changes                of the disk against its template; layered disks only
//	POST /pty                    201 made, 200 existed
//	DELETE /pty/{id}             SIGHUP, SIGKILL after the grace
//	POST /pty/{id}/attach        101, then frames both ways
//	POST /browser/screenshot     PNG
//
// PUT /files and POST /files/patch take `Idempotency-Key`: see machine/internal/agent/once.
//
// A refusal is AgentError with the gateway's HTTP status. Sessions, output and offsets live on the workspace's disk:
// they outlive an agent restart, a suspend, a resume and a fork.

// Incarnation is an agent's identity. hostd writes it to a file for each epoch, with Key.
type Incarnation struct {
	WorkspaceID string `json:"workspace_id"`
	Epoch       int64  `json:"epoch"`
	Protocol    int    `json:"protocol"`
	// Key may be missing in a claim; the agent then reads it from the epoch's file. No answer contains it.
	Key      string       `json:"key,omitempty"`
	Hostname string       `json:"hostname,omitempty"`
	Limits   *GuestLimits `json:"limits,omitempty"`
	// RenewIdentity gives a fork a new hostname, machine-id and boot id, and removes SSH host keys.
	RenewIdentity bool   `json:"renew_identity,omitempty"`
	Nameserver    string `json:"nameserver,omitempty"`
	// Volumes are all volumes that the guest has from now on.
	Volumes []Volume `json:"volumes,omitempty"`
	// RefusedVolumes could not be mounted. The field is only in answers.
	RefusedVolumes []RefusedVolume `json:"refused_volumes,omitempty"`
}

// GuestLimits are limits that the agent enforces inside the guest.
type GuestLimits struct {
	MemoryBytes int64 `json:"memory_bytes"`
	Processes   int   `json:"processes"`
	// OutputBytes limits all sessions' retained output. Above it, output of the sessions that ended first is removed.
	OutputBytes int64 `json:"output_bytes"`
}

// FitRequest makes an agent use a disk before its claim. Only nameserver and limits are read; a claim may change them.
type FitRequest struct {
	Incarnation
}

// ClaimRequest turns a warm sandbox into a workspace's machine. Before it, hostd has mounted claim/root and
// claim/state. If the sandbox was fitted, that disk becomes the workspace's.
type ClaimRequest struct {
	Incarnation
}

// The format of a frame: kind (1 byte), zero (3), data length (uint32, big endian), offset (uint64, big endian), data.
const (
	FrameStdout    = 1 // offset is that of the first byte
	FrameStderr    = 2
	FrameExit      = 3 // the last frame; data: ExecRecord as JSON, with argv null if the record would not fit
	FrameHeartbeat = 4 // sent after every 15 s of silence; no data
	FrameError     = 5 // the last frame; data: AgentError as JSON
	FrameRecord    = 6 // data: ExecRecord as JSON; only the first frame of a start that is followed
	// A terminal sends FrameStdout, then FrameExit with a PtyRecord. It receives the next two kinds.
	FrameInput   = 16 // data: typed input
	FrameResize  = 17 // data: columns, rows (uint16 each, big endian)
	FrameHeader  = 16
	FrameDataMax = 64 << 10
)

// GuestVolumesRequest lists all volumes that the guest has from now on.
type GuestVolumesRequest struct {
	Volumes []Volume `json:"volumes"`
	// EndUsers kills the users of a removed volume. Without it, a used volume remains mounted and is in Busy.
	EndUsers bool `json:"end_users,omitempty"`
}

// GuestVolumes lists the mount slots whose volume is not as requested.
type GuestVolumes struct {
	Busy    []int           `json:"busy"`
	Refused []RefusedVolume `json:"refused"`
}

const (
	WhyNotADirectory = "not_a_directory" // the path, or a part of it, is not a directory
	WhyOverALink     = "over_a_link"     // a part of the path is a symbolic link
	WhyMount         = "mount_failed"
	WhyNotHere       = "not_here" // the computer has no such volume
)
