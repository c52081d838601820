package session

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/output"
	"github.com/berth-dev/berth/machine/internal/agent/spawn"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// start takes the id on disk and runs the command. fs.ErrExist: the disk knows the id already.
func (m *Manager) start(s *Session, c *checked) error {
	s.record = wire.ExecRecord{
		SessionID: c.SessionID, Argv: c.Argv, Cwd: c.Cwd, User: c.User,
		State: stateStarting, StartedAt: Stamp(time.Now()),
	}
	s.timeout, s.grace = c.timeout, c.grace
	segment := m.keep.segmentBytes()
	s.stdout = output.NewStream(s.dir, "stdout", segment)
	s.stderr = output.NewStream(s.dir, "stderr", segment)
	log, err := createRecord(s.dir, entry{Fingerprint: c.Fingerprint, Record: s.record})
	// On a full disk commands still run, or nobody could make room: the session is then known for as long as this memory is.
	if err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	s.log = log // nil takes writes without effect
	if why := m.spawn(s, c); why != "" {
		s.failedToStart(why)
		m.ended(s)
	}
	return nil
}

// spawn returns why the command did not start, "" when it runs.
func (m *Manager) spawn(s *Session, c *checked) string {
	user, ok, err := m.guest.User(c.User)
	if err != nil {
		return fmt.Sprintf("The guest could not be entered: %v", err)
	}
	if !ok {
		return fmt.Sprintf("The user %q does not exist", c.User)
	}
	command := &spawn.Command{
		Argv: c.Argv, Cwd: c.Cwd, UID: user.UID, GID: user.GID, Groups: user.Groups,
		ProcessesMax: m.processesMax.Load(), Stdin: -1, Nonblocking: true,
	}
	command.Env, command.Path = environment(user, c.Env)
	p, err := newPipes(len(c.stdin) > 0)
	if err != nil {
		return fmt.Sprintf("The workspace is at a resource limit: %v", err)
	}
	defer p.closeTheirs()
	command.Stdin, command.Stdout, command.Stderr = p.stdin[0], p.stdout[1], p.stderr[1]
	if err := m.connect(s, p); err != nil {
		p.closeOurs()
		return fmt.Sprintf("The workspace is at a resource limit: %v", err)
	}
	started, err := m.guest.Start(command)
	if err != nil {
		s.taps[0].finish(nil)
		s.taps[1].finish(nil)
		p.closeStdin()
		return explain(err, c)
	}
	s.started(started.PID, started.GuestPID)
	p.feed(c.stdin)
	m.processes.Store(s, started.PID)
	m.reaper.Watch(started.PID, func(status unix.WaitStatus) { m.leaderEnded(s, started.PID, status) })
	return ""
}

// connect puts the pipes under the pump before the command exists: its first byte finds a reader.
func (m *Manager) connect(s *Session, p *pipes) (err error) {
	for i, stream := range []*output.Stream{s.stdout, s.stderr} {
		sink := func(b []byte) {
			// What the disk does not take is counted and lost; the stream says so to its readers.
			_ = stream.Append(b)
			m.keep.grew(int64(len(b)))
			s.notice.Wake()
		}
		fd := [2]int{p.stdout[0], p.stderr[0]}[i]
		if s.taps[i], err = m.pump.watch(fd, sink); err != nil {
			return err
		}
	}
	return nil
}

// explain says in a sentence why nothing started.
func explain(err error, c *checked) string {
	var failed *spawn.StartError
	if !errors.As(err, &failed) {
		return fmt.Sprintf("The command could not be started: %v", err)
	}
	switch failed.Stage {
	case spawn.StageCwd:
		return fmt.Sprintf("The working directory %q: %s", c.Cwd, cause(failed.Errno))
	case spawn.StageExec:
		return fmt.Sprintf("The program %q: %s", c.Argv[0], cause(failed.Errno))
	case spawn.StageCredentials:
		return fmt.Sprintf("The user %q: %s", c.User, cause(failed.Errno))
	}
	return fmt.Sprintf("The command could not be started: %s", cause(failed.Errno))
}

func cause(errno syscall.Errno) string {
	switch errno {
	case syscall.ENOENT:
		return "not found"
	case syscall.ENOTDIR:
		return "not a directory"
	case syscall.EACCES:
		return "permission denied"
	case syscall.ENOEXEC:
		return "not an executable format"
	case syscall.E2BIG:
		return "arguments and environment are too long"
	case syscall.EAGAIN, syscall.ENOMEM:
		return "the workspace is at a resource limit"
	}
	return errno.Error()
}

// pipes are those of one command: [0] is read from, [1] written to. Output does not block, as the pump needs it: the command's end is
// told otherwise by its own process, in whose hands a call takes a sixth of the agent's time.
type pipes struct{ stdin, stdout, stderr [2]int }

func newPipes(withStdin bool) (*pipes, error) {
	p := &pipes{stdin: [2]int{-1, -1}, stdout: [2]int{-1, -1}, stderr: [2]int{-1, -1}}
	const ofOutput = unix.O_CLOEXEC | unix.O_NONBLOCK
	err := errors.Join(unix.Pipe2(p.stdout[:], ofOutput), unix.Pipe2(p.stderr[:], ofOutput))
	if withStdin {
		err = errors.Join(err, unix.Pipe2(p.stdin[:], unix.O_CLOEXEC))
	}
	if err != nil {
		p.closeTheirs()
		p.closeOurs()
		p.closeStdin()
	}
	return p, err
}

func closeIfOpen(fd int) {
	if fd >= 0 {
		unix.Close(fd)
	}
}

func (p *pipes) closeTheirs() {
	closeIfOpen(p.stdin[0])
	closeIfOpen(p.stdout[1])
	closeIfOpen(p.stderr[1])
}

func (p *pipes) closeOurs() {
	closeIfOpen(p.stdout[0])
	closeIfOpen(p.stderr[0])
	p.closeStdin()
}

func (p *pipes) closeStdin() {
	closeIfOpen(p.stdin[1])
	p.stdin[1] = -1
}

// feed writes stdin and closes it. A command that does not read it holds one goroutine and its bytes until it ends.
func (p *pipes) feed(data []byte) {
	if p.stdin[1] < 0 {
		return
	}
	// A failure here falls back to a blocking descriptor, which only costs a thread.
	_ = unix.SetNonblock(p.stdin[1], true)
	f := os.NewFile(uintptr(p.stdin[1]), "stdin")
	go func() {
		defer f.Close()
		_, _ = f.Write(data) // EPIPE: the command did not want it all
	}()
}
