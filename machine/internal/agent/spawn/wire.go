// Package spawn starts the guest's processes. A helper process, the spawner, does it: it holds no key and no file of the
// agent, it alone pays for a blocked vfork, and its threads live in the guest's mount and PID namespaces, so whatever
// they start is inside while the agent stays invisible.
package spawn

import (
	"encoding/binary"
	"errors"
)

// Limits of one request: it travels as one datagram.
const (
	ArgumentBytesMax = 128 << 10 // argv and env together, with a pointer's 8 bytes for each
	messageBytesMax  = ArgumentBytesMax + 48<<10
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
)

const (
	messageAdopt = 1
	messageExec  = 2
)

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

func (r reply) encode() []byte {
	b := make([]byte, 0, replyBytes)
	b = binary.LittleEndian.AppendUint32(b, uint32(r.pid))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.guestPID))
	b = binary.LittleEndian.AppendUint32(b, r.stage)
	return binary.LittleEndian.AppendUint32(b, r.errno)
}

func decodeReply(b []byte) (reply, error) {
	if len(b) != replyBytes {
		return reply{}, errors.New("spawner: reply of a wrong size")
	}
	at := func(i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
	return reply{pid: int32(at(0)), guestPID: int32(at(1)), stage: at(2), errno: at(3)}, nil
}

func appendString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

func appendStrings(b []byte, list []string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

func (c *Command) encode(b []byte) []byte {
	b = append(b, messageExec)
	b = binary.LittleEndian.AppendUint32(b, c.UID)
	b = binary.LittleEndian.AppendUint32(b, c.GID)
	b = binary.LittleEndian.AppendUint64(b, c.ProcessesMax)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c.Groups)))
	for _, g := range c.Groups {
		b = binary.LittleEndian.AppendUint32(b, g)
	}
	b = appendString(b, c.Cwd)
	b = appendString(b, c.Path)
	b = appendStrings(b, c.Argv)
	return appendStrings(b, c.Env)
}

// decoder reads what encode wrote; after a short read everything is zero and bad is set.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.bad, d.b = true, nil
		return make([]byte, min(max(n, 0), 8))
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) u32() uint32 { return binary.LittleEndian.Uint32(d.take(4)) }
func (d *decoder) u64() uint64 { return binary.LittleEndian.Uint64(d.take(8)) }

func (d *decoder) count(each int) int {
	n := int(d.u32())
	if n > len(d.b)/each {
		d.bad, d.b = true, nil
		return 0
	}
	return n
}

func (d *decoder) string() string {
	n := d.count(1)
	return string(d.take(n))
}

func (d *decoder) strings() []string {
	list := make([]string, d.count(4))
	for i := range list {
		list[i] = d.string()
	}
	return list
}

func decodeCommand(b []byte) (*Command, error) {
	d := &decoder{b: b}
	c := &Command{}
	c.UID, c.GID, c.ProcessesMax = d.u32(), d.u32(), d.u64()
	c.Groups = make([]uint32, d.count(4))
	for i := range c.Groups {
		c.Groups[i] = d.u32()
	}
	c.Cwd, c.Path, c.Argv, c.Env = d.string(), d.string(), d.strings(), d.strings()
	if d.bad || len(c.Argv) == 0 {
		return nil, errors.New("spawner: malformed request")
	}
	return c, nil
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
