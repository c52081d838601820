// Package spawn starts the guest's processes. Helper processes, the spawner and its workers, do it: they hold no key and no file of
// the agent, they alone pay for a blocked vfork, and the workers live in the guest's mount and PID namespaces, so whatever
// they start is inside while the agent stays invisible.
package spawn

import (
	"encoding/binary"
	"errors"
)

// Limits of one request: it travels as one datagram.
const (
	ArgumentBytesMax = 128 << 10                 // argv and env together, with a pointer's 8 bytes for each
	messageBytesMax  = ArgumentBytesMax + 48<<10 // a multiple of 8
	groupsMax        = 256
)

// Stages at which a start can fail.
const (
	StageSpawned = iota
	StageFork
	StageCredentials
	StageCwd
	StageExec
	StageMount
	StageSignal
	StageSlow // it did not become its program in time, and was ended
)

// messagePrepare is the one word that the spawner itself is told; what its workers are told are programs.
const messagePrepare = 2

// Command is one process to start, with everything resolved but the paths, which only the guest's view can resolve.
type Command struct {
	Argv          []string
	Env           []string
	Cwd           string
	Path          string // PATH for Argv[0] without a slash
	UID, GID      uint32
	Groups        []uint32
	ProcessesMax  uint64 // RLIMIT_NPROC; 0 leaves it alone
	Stdin, Stdout int    // descriptors of the caller; Stdin -1 is /dev/null
	Stderr        int
	Terminal      bool // Stdin is a terminal, which becomes the controlling one
	// Meanwhile, unless nil, is called while the process starts: its descriptors have been sent by then, and may be closed.
	Meanwhile func()
}

// Started is a process as the agent sees it (PID) and as the guest sees it (GuestPID).
type Started struct {
	PID      int
	GuestPID int
}

// reply is the fixed answer of the spawner.
type reply struct {
	pid, guestPID int32
	stage, errno  uint32
}

const replyBytes = 16

// decodeReply reads what a worker sent as it lies in its memory: both ends are the same binary on the same computer.
func decodeReply(b []byte) (reply, error) {
	if len(b) != replyBytes {
		return reply{}, errors.New("spawner: reply of a wrong size")
	}
	at := func(i int) uint32 { return binary.NativeEndian.Uint32(b[4*i:]) }
	return reply{pid: int32(at(0)), guestPID: int32(at(1)), stage: at(2), errno: at(3)}, nil
}

// ArgumentBytes is what argv and env count against ArgumentBytesMax.
func ArgumentBytes(argv, env []string) int {
	n := 0
	for _, list := range [][]string{argv, env} {
		for _, s := range list {
			n += len(s) + 9
		}
	}
	return n
}
