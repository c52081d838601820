package session

import (
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/record"
)

// Output that a background process holds open (decision 255) is stored for lateSeconds after the exit, up to
// lateBytesMax per stream. The exit does not wait.
const (
	lateSeconds  = 60
	lateBytesMax = 1 << 20
)

// late: another process holds the output open, so endLate must follow.
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

// On a full disk the previous line stays; a later boot reports a first line as lost.
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
