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

// Session exists from the moment its id is reserved.
type Session struct {
	dir         string
	fingerprint string
	notice      output.Notice
	ready       chan struct{} // closed once the start has succeeded or failed
	startErr    error         // reason of a failed start; read it after ready

	stdout, stderr *output.Stream
	log            *os.File
	taps           [2]*pipeReader
	queues         [2]*output.Queue
	limit          atomic.Pointer[string] // the reason if the guard killed one of the command's processes
	stdin          *stdin                 // nil unless stdin stays open

	mu      sync.Mutex
	record  wire.ExecRecord
	begun   time.Time // monotonic: idle and timeout ignore the wall clock
	timeout time.Duration
	grace   time.Duration
	ending  bool    // SIGTERM was sent, SIGKILL follows
	leftAt  *string // end of the leader, whose pid may be reused from then on
	timer   *time.Timer
}

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

// The ids of a template's services have this prefix. Only the cell starts these services.
const templatePrefix = "sfstart."

func (s *Session) belongsToTemplate() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.HasPrefix(s.record.SessionID, templatePrefix)
}

// busyFor returns how long the command still counts as activity: until its timeout, or for an hour.
func (s *Session) busyFor(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	span := s.timeout
	if span == 0 {
		span = time.Hour
	}
	return s.begun.Add(span).Sub(now)
}

// started writes nothing to the disk, because a later boot needs only the record's first line.
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
	// Errors are ignored, because the group may just have ended.
	_ = unix.Kill(-pid, unix.SIGTERM)
	_ = unix.Kill(-pid, unix.SIGCONT)
	s.timer = time.AfterFunc(s.grace, func() { _ = unix.Kill(-pid, unix.SIGKILL) })
}

// After leaderLeft the group gets no signal, except a pending SIGKILL (stopTimer).
func (s *Session) leaderLeft(pid int) (at *string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leftAt = record.Stamp(time.Now())
	s.stopTimer(pid)
	return s.leftAt
}

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
	// Followers run on this thread at once, because waking another thread is slow.
	s.notice.Wake()
	runtime.Gosched()
	if late = s.startLateOutput(); late {
		s.note()
	} else {
		s.close()
	}
	return late
}

// stopTimer does not cancel a pending SIGKILL if members of the group outlive the leader.
func (s *Session) stopTimer(pid int) {
	if s.timer == nil {
		return
	}
	if s.ending && unix.Kill(-pid, 0) == nil {
		return
	}
	s.timer.Stop()
}

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
