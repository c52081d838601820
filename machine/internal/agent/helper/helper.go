// Package helper runs an untrusted program of the guest: its output is limited, and its process group is killed at the
// deadline.
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
	drainGrace = 500 * time.Millisecond // wait for output that a background process has open
)

type Guest interface {
	User(name string) (guestroot.User, bool, error)
	Start(*spawn.Command) (spawn.Started, error)
}

type Runner struct {
	guest  Guest
	reaper *reap.Reaper
	slots  chan struct{}
}

func New(guest Guest, reaper *reap.Reaper) *Runner {
	return &Runner{guest: guest, reaper: reaper, slots: make(chan struct{}, atOnceMax)}
}

// Command is a program to run. Env overrides the user's login environment.
type Command struct {
	User      string
	Argv      []string
	Env       map[string]string
	Cwd       string
	Stdin     []byte
	StdoutMax int // more output stops the program and sets Result.Truncated
	StderrMax int // more output is dropped
}

type Result struct {
	Stdout, Stderr []byte
	Truncated      bool
	ExitCode       int // -1: killed by a signal
}

var ErrMissing = errors.New("helper: the guest has no such program")

// Run runs a program and returns its output. If ctx ends first, Run stops the program.
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

type Process struct {
	PID   int
	Ended chan struct{} // closed once the process is reaped

	mu     sync.Mutex
	status unix.WaitStatus
	gone   bool
}

// Start does not close the descriptors.
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

// Signal does nothing once the leader is reaped, because its pid may then belong to another process.
func (p *Process) Signal(signal syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		_ = unix.Kill(-p.PID, signal) // ESRCH: the group is just ending
	}
}

// Stop ends the process group, and waits until its leader is reaped.
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
