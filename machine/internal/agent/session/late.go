package session

import (
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/record"
)

// A background process may have the output open after the command's exit (decision 255). Its output is stored for
// lateSeconds, up to lateBytesMax per stream. The exit is reported without waiting.
const (
	lateSeconds  = 60
	lateBytesMax = 1 << 20
)

// startLateOutput returns true if another process has the output open. Then endLate must follow.
func (s *Session) startLateOutput() (late bool) {
	for i, t := range s.taps {
		if t.startLateOutput(s.queues[i]) {
			late = true
		}
	}
	return late
}

func (s *Session) endLate() {
	for _, t := range s.taps {
		t.drop()
	}
	for _, q := range s.queues {
		q.Wait()
	}
	s.close()
}

// On a full disk the previous line remains the last one. A later boot reports a record with only its first line as
// lost.
func (s *Session) note() { _ = record.Append(s.log, entry{Record: s.Record()}) }

func (s *Session) close() {
	s.stdout.Seal()
	s.stderr.Seal()
	s.note()
	s.log.Close()
}

func (m *Manager) registerWhenClosed(s *Session, late bool) {
	if !late {
		m.registerEnded(s)
		return
	}
	time.AfterFunc(m.late, func() {
		s.endLate()
		m.registerEnded(s)
	})
}
