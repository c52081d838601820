package session

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/output"
	"github.com/berth-dev/berth/machine/internal/agent/record"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// Session is one command, from the moment its id is taken.
type Session struct {
	dir         string
	fingerprint string
	notice      output.Notice
	ready       chan struct{} // closed when the start is decided
	startErr    error         // why there is no session after all; read after ready

	stdout, stderr *output.Stream
	log            *os.File
	taps           [2]*tap
	queues         [2]*output.Queue
	limit          atomic.Pointer[string] // for which a process of it was ended by the agent
	stdin          *stdin                 // nil where it was not asked to stay open

	mu      sync.Mutex
	record  wire.ExecRecord
	begun   time.Time // monotonic: idle and timeout do not follow the wall clock
	timeout time.Duration
	grace   time.Duration
	ending  bool    // SIGTERM was sent, SIGKILL follows
	leftAt  *string // when the leader ended; its pid is no longer ours from then on
	timer   *time.Timer
}

// Record is the state as of now.
func (s *Session) Record() wire.ExecRecord {
	s.mu.Lock()
	r := s.record
	s.mu.Unlock()
	if s.stdout != nil {
		r.StdoutAvailable, r.StdoutBytes = s.stdout.Range()
		r.StderrAvailable, r.StderrBytes = s.stderr.Range()
	}
	if s.stdin != nil {
		r.Stdin = new(s.stdin.state())
	}
	return r
}

func (s *Session) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record.State == record.Running || s.record.State == record.Starting
}

// templatePrefix begins the ids of what a template version starts: the cell alone starts such sessions.
const templatePrefix = "sfstart."

func (s *Session) belongsToTemplate() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.HasPrefix(s.record.SessionID, templatePrefix)
}

// busyFor is how long the command still counts as activity: an hour, or its own timeout.
func (s *Session) busyFor(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	span := s.timeout
	if span == 0 {
		span = time.Hour
	}
	return s.begun.Add(span).Sub(now)
}

// started records that the process runs. The first line on disk says all that a later boot may know.
func (s *Session) started(pid, guestPID int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.State = record.Running
	s.record.PID = &guestPID
	s.begun = time.Now()
	if s.timeout > 0 {
		s.timer = time.AfterFunc(s.timeout, func() { s.end(pid, true) })
	}
}

// end sends SIGTERM to the process group, and SIGKILL after the grace.
func (s *Session) end(pid int, timedOut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.record.State != record.Running || s.ending || s.leftAt != nil {
		return
	}
	s.ending = true
	s.record.TimedOut = timedOut
	if s.timer != nil {
		s.timer.Stop()
	}
	// ESRCH is impossible before the leader is waited for, and harmless.
	_ = unix.Kill(-pid, unix.SIGTERM)
	_ = unix.Kill(-pid, unix.SIGCONT)
	s.timer = time.AfterFunc(s.grace, func() { _ = unix.Kill(-pid, unix.SIGKILL) })
}

// leaderLeft notes that the leader has ended, before its pid can be another's.
func (s *Session) leaderLeft(pid int) (at *string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leftAt = record.Stamp(time.Now())
	s.stopTimer(pid)
	return s.leftAt
}

// finished tells the exit: the leader has ended with status. late: see leave.
func (s *Session) finished(status unix.WaitStatus, buffer []byte) (late bool) {
	if s.stdin != nil {
		s.stdin.close()
	}
	for _, t := range s.taps {
		t.finish(buffer)
	}
	for _, q := range s.queues {
		q.Wait()
	}
	s.mu.Lock()
	s.record.State = record.Exited
	s.record.EndedAt = s.leftAt
	s.record.ExitCode, s.record.TermSignal = record.Exit(status)
	if status.Signaled() || status.ExitStatus() != 0 {
		s.record.Reason = s.limit.Load()
	}
	if s.stdin != nil {
		s.record.Stdin = new(s.stdin.state())
	}
	s.mu.Unlock()
	// Before the rest, and on this thread: whoever waits has waited long enough, and another thread would have to be woken for it.
	s.notice.Wake()
	runtime.Gosched()
	if late = s.leave(); late {
		s.note()
	} else {
		s.close()
	}
	return late
}

// stopTimer: members of the group that outlive the leader still get the SIGKILL that was promised to them.
func (s *Session) stopTimer(pid int) {
	if s.timer == nil {
		return
	}
	if s.ending && unix.Kill(-pid, 0) == nil {
		return
	}
	s.timer.Stop()
}

// failedToStart closes a session that never ran.
func (s *Session) failedToStart(why string) {
	s.mu.Lock()
	s.record.State = record.Failed
	s.record.StartedAt = nil
	s.record.EndedAt = record.Stamp(time.Now())
	s.record.Error = &why
	r := s.record
	s.mu.Unlock()
	_ = record.Append(s.log, entry{Record: r})
	s.log.Close()
	s.notice.Wake()
}
