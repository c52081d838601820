package session

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/listing"
	"github.com/berth-dev/berth/machine/internal/agent/output"
	"github.com/berth-dev/berth/machine/internal/agent/record"
	"github.com/berth-dev/berth/machine/internal/agent/spawn"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// start returns fs.ErrExist if the id is already on the disk.
func (m *Manager) start(s *Session, c *checked) error {
	s.record = wire.ExecRecord{
		SessionID: c.SessionID, Argv: c.Argv, Cwd: c.Cwd, User: c.User,
		State: record.Starting, StartedAt: record.Stamp(time.Now()),
	}
	s.timeout, s.grace = c.timeout, c.grace
	segment := m.keep.SegmentBytes()
	s.stdout = output.NewStream(s.dir, "stdout", segment)
	s.stderr = output.NewStream(s.dir, "stderr", segment)
	log, err := record.Create(s.dir+recordSuffix, entry{Fingerprint: c.Fingerprint, Record: s.record})
	// On a full disk (record.IsFull) a command runs too, with its record only in memory.
	if err != nil && !record.IsFull(err) {
		return err
	}
	s.log = log // on a full disk nil, and writes fail without effect
	m.begins.began(s.dir, listing.At(s.record.StartedAt, nil))
	m.keep.Began(s.stdout, s.stderr)
	if why := m.spawn(s, c); why != "" {
		s.failedToStart(why)
		m.lastEnded.Store(record.Stamp(time.Now()))
		m.release(s)
		m.registerEnded(s)
	}
	return nil
}

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
		ProcessesMax: m.processesMax.Load(),
	}
	command.Env, command.Path = environment(user, c.Env)
	for attempt := 0; ; attempt++ {
		p, err := m.takePipes(len(c.stdin) > 0 || c.StdinOpen)
		if err != nil {
			return fmt.Sprintf("The workspace is at a resource limit: %v", err)
		}
		if err := p.giveTo(user.UID, user.GID); err != nil {
			p.abandon()
			return fmt.Sprintf("The user %q could not be given the command's pipes: %v", c.User, err)
		}
		err = m.startOn(p, s, c, command)
		if err == nil {
			return ""
		}
		if attempt > 0 || !errors.Is(err, spawn.ErrRefused) {
			return explain(err, c)
		}
	}
}

// startOn becomes the owner of the pipes.
func (m *Manager) startOn(p *pipes, s *Session, c *checked, command *spawn.Command) error {
	s.taps = p.taps
	for i, stream := range []*output.Stream{s.stdout, s.stderr} {
		s.queues[i] = m.queues.NewQueue(stream, func(grown int64) {
			m.keep.Grew(grown)
			s.notice.Wake()
		})
		s.taps[i].deliverTo(s.queues[i])
	}
	command.Stdin, command.Stdout, command.Stderr = p.stdin[0], p.stdout[1], p.stderr[1]
	command.Meanwhile = func() {
		p.closeTheirs()
		m.restockPipes(command.UID, command.GID)
	}
	started, err := m.guest.Start(command)
	if err != nil {
		p.abandon()
		return err
	}
	s.writeStdin(p, c)
	s.started(started.PID, started.GuestPID)
	m.processes.Store(s, started.PID)
	m.reaper.Watch(started.PID, func(status unix.WaitStatus) { m.leaderLeft(s, started.PID, status) })
	return nil
}

func (s *Session) writeStdin(p *pipes, c *checked) {
	if !c.StdinOpen {
		p.feed(c.stdin)
		return
	}
	s.stdin = openStdin(p.stdin[1])
	p.stdin[1] = -1
	s.stdin.feed(c.stdin)
}

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
	case syscall.ETIMEDOUT:
		return "it was stopped, or not ready in time, before its program began"
	}
	return errno.Error()
}
