package spawn

import (
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// descriptorsMax is the soft limit that commands start with; the hard limit stays the slot's own.
const descriptorsMax = 65536

// limitHard is read once: the Go runtime of the spawner has raised its own soft limit already.
var limitHard = func() uint64 {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return descriptorsMax
	}
	return r.Max
}()

// scriptOf builds what the child does. stdio are descriptors of the spawner, all of them above 2.
func scriptOf(c *Command, stdio [3]int) (*script, error) {
	s := &script{clone: cloneArgs{flags: vforkFlags | unix.CLONE_PARENT}}
	for to, from := range stdio {
		s.add(StageFork, false, unix.SYS_DUP3, uintptr(from), uintptr(to), 0)
	}
	// Before any path of the caller is resolved: /proc/self/fd of this child must not lead anywhere.
	s.add(StageFork, false, unix.SYS_CLOSE_RANGE, 3, 0x7fffffff, 0)
	s.add(StageFork, false, unix.SYS_SETSID, 0, 0, 0)
	files := &unix.Rlimit{Cur: min(descriptorsMax, limitHard), Max: limitHard}
	s.add(StageFork, true, unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, s.keep(unsafe.Pointer(files)), 0)
	if c.ProcessesMax > 0 {
		processes := &unix.Rlimit{Cur: c.ProcessesMax, Max: c.ProcessesMax}
		s.add(StageFork, true, unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NPROC, s.keep(unsafe.Pointer(processes)), 0)
	}
	s.addCredentials(c)
	cwd, err := syscall.BytePtrFromString(c.Cwd)
	if err != nil {
		return nil, err
	}
	s.add(StageCwd, false, unix.SYS_CHDIR, s.keep(unsafe.Pointer(cwd)))
	s.add(StageFork, true, unix.SYS_UMASK, 0o022)
	s.unblock()
	return s, s.addProgram(c)
}

func (s *script) add(stage uint32, soft bool, nr uintptr, args ...uintptr) {
	t := step{nr: nr, stage: stage, soft: soft}
	copy(t.args[:], args)
	s.steps = append(s.steps, t)
}

// keep holds what a step only knows as a number, so that the collector does not take it.
func (s *script) keep(p unsafe.Pointer) uintptr {
	s.kept = append(s.kept, p)
	return uintptr(p)
}

func (s *script) addCredentials(c *Command) {
	groups := c.Groups
	if len(groups) == 0 {
		groups = []uint32{c.GID}
	}
	s.add(StageCredentials, false, unix.SYS_SETGROUPS, uintptr(len(groups)), s.keep(unsafe.Pointer(&groups[0])))
	s.add(StageCredentials, false, unix.SYS_SETRESGID, uintptr(c.GID), uintptr(c.GID), uintptr(c.GID))
	s.add(StageCredentials, false, unix.SYS_SETRESUID, uintptr(c.UID), uintptr(c.UID), uintptr(c.UID))
}

func (s *script) addProgram(c *Command) error {
	argv, err := syscall.SlicePtrFromStrings(c.Argv)
	if err != nil {
		return err
	}
	env, err := syscall.SlicePtrFromStrings(c.Env)
	if err != nil {
		return err
	}
	s.argv, s.env = &argv[0], &env[0]
	for _, path := range candidatesOf(c.Argv[0], c.Path) {
		p, err := syscall.BytePtrFromString(path)
		if err != nil {
			return err
		}
		s.candidates = append(s.candidates, p)
	}
	return nil
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
