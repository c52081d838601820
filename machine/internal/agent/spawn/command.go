package spawn

import (
	"encoding/binary"
	"strings"

	"golang.org/x/sys/unix"
)

const descriptorsMax = 65536

// The hard limit is unchanged, because the Go runtime raises only the soft limit.
var limitHard = func() uint64 {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return descriptorsMax
	}
	return r.Max
}()

func programOf(c *Command) ([]byte, error) {
	b := &builder{header: header{clone: vforkFlags | unix.CLONE_PARENT}}
	for index, to := range []uintptr{1, 2, 0}[:len(c.descriptors())] {
		b.add(StageFork, false, unix.SYS_DUP3, passed(index), number(to), number(0))
	}
	// Descriptors are closed before a path of the caller is resolved. Otherwise /proc/self/fd would lead to the
	// worker's descriptors.
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

// descriptors become 1, 2 and 0 of the command. Without the last one, stdin remains /dev/null.
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

// unblock ends the blocking of signals that began at the fork.
func (b *builder) unblock() {
	b.add(StageFork, false, unix.SYS_RT_SIGPROCMASK, number(unix.SIG_SETMASK), b.words(0), number(0), number(8))
}

// candidatesOf returns the paths to try. An empty element of PATH means the current directory.
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
