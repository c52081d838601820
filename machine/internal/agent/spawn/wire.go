// Package spawn starts the guest's processes by workers, which block in vfork and have no keys or files of the
// agent. The processes are in the guest's mount and PID namespaces, where the agent is invisible.
package spawn

import (
	"encoding/binary"
	"errors"
)

// A request is one datagram, so its size is limited.
const (
	ArgumentBytesMax = 128 << 10                 // argv and env, plus 8 bytes per pointer
	messageBytesMax  = ArgumentBytesMax + 48<<10 // a multiple of 8
	groupsMax        = 256
)

const (
	StageSpawned = iota
	StageFork
	StageCredentials
	StageCwd
	StageExec
	StageMount
	StageSignal
	StageSlow // killed, because it did not execute its program in time
)

// messagePrepare is the only message to the spawner.
const messagePrepare = 2

// Command is a program to start. Its paths are resolved in the guest's view.
type Command struct {
	Argv          []string
	Env           []string
	Cwd           string
	Path          string // PATH for an Argv[0] without a slash
	UID, GID      uint32
	Groups        []uint32
	ProcessesMax  uint64 // RLIMIT_NPROC; 0: unchanged
	Stdin, Stdout int    // descriptors of the caller; Stdin -1 is /dev/null
	Stderr        int
	Terminal      bool // makes Stdin the controlling terminal
	// Meanwhile is called during the start. It may close the descriptors.
	Meanwhile func()
}

// Started has the pids of a process in the agent's and in the guest's PID namespace.
type Started struct {
	PID      int
	GuestPID int
}

type reply struct {
	pid, guestPID int32
	stage, errno  uint32
}

const replyBytes = 16

// decodeReply needs no version, because both sides are the same binary.
func decodeReply(b []byte) (reply, error) {
	if len(b) != replyBytes {
		return reply{}, errors.New("spawner: reply of a wrong size")
	}
	at := func(i int) uint32 { return binary.NativeEndian.Uint32(b[4*i:]) }
	return reply{pid: int32(at(0)), guestPID: int32(at(1)), stage: at(2), errno: at(3)}, nil
}

// ArgumentBytes is the size that ArgumentBytesMax limits.
func ArgumentBytes(argv, env []string) int {
	n := 0
	for _, list := range [][]string{argv, env} {
		for _, s := range list {
			n += len(s) + 9
		}
	}
	return n
}
