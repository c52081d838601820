// Package helper runs a program of the guest for the agent's own purposes, from start to end. The program is the guest's and may lie
// or hang: its output is bounded, and its whole process group ends at the deadline.
package helper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/agent/reap"
	"github.com/berth-dev/berth/machine/internal/agent/session"
	"github.com/berth-dev/berth/machine/internal/agent/spawn"
)

const (
	atOnceMax  = 16
	killGrace  = 2 * time.Second
	drainGrace = 500 * time.Millisecond // for what a background process keeps open
)

// Guest is where programs run.
type Guest interface {
	User(name string) (guestroot.User, bool, error)
	Start(*spawn.Command) (spawn.Started, error)
}

// Runner starts helpers.
type Runner struct {
	guest  Guest
	reaper *reap.Reaper
	slots  chan struct{}
}

func New(guest Guest, reaper *reap.Reaper) *Runner {
	return &Runner{guest: guest, reaper: reaper, slots: make(chan struct{}, atOnceMax)}
}

// Command is one program. Env lies over what any login of the user has.
type Command struct {
	User      string
	Argv      []string
	Env       map[string]string
	Cwd       string
	Stdin     []byte
	StdoutMax int // more ends the command: Result.Truncated
	StderrMax int // more is dropped
}

// Result is how a program ended and what it wrote.
type Result struct {
	Stdout, Stderr []byte
	Truncated      bool
	ExitCode       int // -1: a signal ended it
}

// ErrMissing says that the guest has no such program.
var ErrMissing = errors.New("helper: the guest has no such program")

// Run returns when the program has ended. The context's end is the deadline; then the error is the context's.
func (r *Runner) Run(ctx context.Context, c Command) (Result, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	default:
		return Result{}, fail.RateLimited("too_many_sessions", "Too many helpers are running in the workspace")
	}
	p, err := newPipes()
	if err != nil {
		return Result{}, err
	}
	process, err := r.Start(c, p.stdin.theirs, p.stdout.theirs, p.stderr.theirs)
	p.closeTheirs()
	if err != nil {
		p.closeOurs()
		return Result{}, err
	}
	return supervise(ctx, process, p, c)
}

// Process is a started helper.
type Process struct {
	PID   int
	Ended chan struct{} // closed when it has been waited for

	mu     sync.Mutex
	status unix.WaitStatus
	gone   bool
}

// Start runs a program on descriptors of the caller's, which stay the caller's.
func (r *Runner) Start(c Command, stdin, stdout, stderr int) (*Process, error) {
	user, ok, err := r.guest.User(c.User)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fail.Conflict("guest_feature_unavailable", "The workspace has no such user").With("user", c.User)
	}
	env, path := session.Environment(user, c.Env)
	started, err := r.guest.Start(&spawn.Command{
		Argv: c.Argv, Env: env, Path: path, Cwd: c.Cwd, UID: user.UID, GID: user.GID, Groups: user.Groups,
		Stdin: stdin, Stdout: stdout, Stderr: stderr,
	})
	if err != nil {
		return nil, explain(err, c)
	}
	process := &Process{PID: started.PID, Ended: make(chan struct{})}
	r.reaper.Watch(started.PID, process.ended)
	return process, nil
}

func (p *Process) ended(status unix.WaitStatus) {
	p.mu.Lock()
	p.status, p.gone = status, true
	p.mu.Unlock()
	close(p.Ended)
}

// Signal reaches the process group while the leader has not been waited for: afterwards its number may be another's.
func (p *Process) Signal(signal syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		_ = unix.Kill(-p.PID, signal) // ESRCH: it is just ending
	}
}

// Stop ends the process group and returns when its leader is gone.
func (p *Process) Stop() {
	p.Signal(unix.SIGTERM)
	select {
	case <-p.Ended:
	case <-time.After(killGrace):
		p.Signal(unix.SIGKILL)
		<-p.Ended
	}
}

func (p *Process) exitCode() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status.Signaled() {
		return -1
	}
	return p.status.ExitStatus()
}

func supervise(ctx context.Context, process *Process, p *pipes, c Command) (Result, error) {
	go p.feed(c.Stdin)
	full := make(chan struct{}, 1)
	stdout, stderr := collect(p.stdout.ours, c.StdoutMax, full), collect(p.stderr.ours, c.StderrMax, nil)
	var result Result
	var err error
	select {
	case <-process.Ended:
	case <-full:
		result.Truncated = true
		process.Stop()
	case <-ctx.Done():
		err = ctx.Err()
		process.Stop()
	}
	late := time.AfterFunc(drainGrace, p.closeOurs)
	result.Stdout, result.Stderr = <-stdout, <-stderr
	late.Stop()
	p.closeOurs()
	result.ExitCode = process.exitCode()
	return result, err
}

func explain(err error, c Command) error {
	var failed *spawn.StartError
	if !errors.As(err, &failed) {
		return err
	}
	switch {
	case failed.Stage == spawn.StageExec && (failed.Errno == syscall.ENOENT || failed.Errno == syscall.EACCES || failed.Errno == syscall.ENOEXEC):
		return fmt.Errorf("%w: %s", ErrMissing, c.Argv[0])
	case failed.Stage == spawn.StageCwd && failed.Errno == syscall.ENOTDIR:
		return fail.Conflict("not_a_directory", "The path is not a directory")
	case failed.Stage == spawn.StageCwd:
		return fail.NotFound("path_not_found", "There is no such directory, or it may not be entered")
	case failed.Stage == spawn.StageExec && failed.Errno == syscall.E2BIG:
		return fail.TooLarge("The arguments are too long", spawn.ArgumentBytesMax)
	case failed.Stage == spawn.StageSlow:
		return fail.Timeout("A program was stopped, or not ready in time, before it began")
	case failed.Errno == syscall.EAGAIN:
		return fail.RateLimited("resource_limit", "The workspace is at a resource limit")
	}
	return failed.Errno
}
