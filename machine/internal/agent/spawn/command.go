package spawn

import (
	"encoding/binary"
	"strings"

	"golang.org/x/sys/unix"
)

// descriptorsMax is the soft limit that commands start with; the hard limit stays the slot's own.
const descriptorsMax = 65536

// limitHard is read once: the Go runtime has raised its own soft limit already.
var limitHard = func() uint64 {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return descriptorsMax
	}
	return r.Max
}()

// programOf lays out what the child of a worker does to become the command, whose descriptors come with the message.
func programOf(c *Command) ([]byte, error) {
	b := &builder{header: header{clone: vforkFlags | unix.CLONE_PARENT}}
	for index, to := range []uintptr{1, 2, 0}[:len(c.descriptors())] {
		b.add(StageFork, false, unix.SYS_DUP3, passed(index), number(to), number(0))
	}
	// Before any path of the caller is resolved: /proc/self/fd of this child must not lead anywhere.
	b.add(StageFork, false, unix.SYS_CLOSE_RANGE, numbers(3, 0x7fffffff, 0)...)
	b.add(StageFork, false, unix.SYS_SETSID)
	if c.Terminal {
		b.add(StageFork, false, unix.SYS_IOCTL, numbers(0, unix.TIOCSCTTY, 0)...)
	}
	b.limit(unix.RLIMIT_NOFILE, min(descriptorsMax, limitHard), limitHard)
	if c.ProcessesMax > 0 {
		b.limit(unix.RLIMIT_NPROC, c.ProcessesMax, c.ProcessesMax)
	}
	b.credentials(c)
	b.add(StageCwd, false, unix.SYS_CHDIR, b.text(c.Cwd))
	b.unblock()
	b.header.argv, b.header.env = b.texts(c.Argv), b.texts(c.Env)
	b.header.candidates = b.texts(candidatesOf(c.Argv[0], c.Path))
	return b.build()
}

// descriptors are those that become 1, 2 and, where it is not what a worker has, 0.
func (c *Command) descriptors() []int {
	if c.Stdin < 0 {
		return []int{c.Stdout, c.Stderr}
	}
	return []int{c.Stdout, c.Stderr, c.Stdin}
}

func (b *builder) limit(what uintptr, soft, hard uint64) {
	b.add(StageFork, true, unix.SYS_PRLIMIT64, number(0), number(what), b.words(soft, hard), number(0))
}

func (b *builder) credentials(c *Command) {
	groups := c.Groups
	if len(groups) == 0 {
		groups = []uint32{c.GID}
	}
	var list []byte
	for _, g := range groups {
		list = binary.NativeEndian.AppendUint32(list, g)
	}
	b.add(StageCredentials, false, unix.SYS_SETGROUPS, number(uintptr(len(groups))), b.bytes(list))
	b.add(StageCredentials, false, unix.SYS_SETRESGID, numbers(uintptr(c.GID), uintptr(c.GID), uintptr(c.GID))...)
	b.add(StageCredentials, false, unix.SYS_SETRESUID, numbers(uintptr(c.UID), uintptr(c.UID), uintptr(c.UID))...)
}

// unblock is the last step of every program: whoever forks has blocked all signals.
func (b *builder) unblock() {
	b.add(StageFork, false, unix.SYS_RT_SIGPROCMASK, number(unix.SIG_SETMASK), b.words(0), number(0), number(8))
}

// candidatesOf lists where a program may be; an empty element of PATH is the current directory, as everywhere.
func candidatesOf(program, path string) []string {
	if program == "" {
		return nil
	}
	if strings.Contains(program, "/") {
		return []string{program}
	}
	var list []string
	for _, dir := range strings.Split(path, ":") {
		if dir == "" {
			dir = "."
		}
		list = append(list, dir+"/"+program)
	}
	return list
}
