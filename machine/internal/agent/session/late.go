package session

import (
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/record"
)

// What a background process writes to the output that it has from a command is kept for so long after the command's end, and so much of
// each stream (decision 255). It is read at the offsets behind the command's own; the exit waits for none of it.
const (
	lateSeconds  = 60
	lateBytesMax = 1 << 20
)

// leave comes after the exit was told. true: somebody else has the command's output still, and endLate is to follow.
func (s *Session) leave() (late bool) {
	for i, t := range s.taps {
		if t.letGo(s.queues[i]) {
			late = true
		}
	}
	return late
}

// endLate ends the time in which output is still kept. What is written later is dropped.
func (s *Session) endLate() {
	for _, t := range s.taps {
		t.drop()
	}
	for _, q := range s.queues {
		q.Wait()
	}
	s.close()
}

// note writes down how the command ended, and how long its streams are. A disk that takes no more leaves the line before: where that is the
// first, a later boot calls the session lost.
func (s *Session) note() { _ = record.Append(s.log, entry{Record: s.Record()}) }

func (s *Session) close() {
	s.stdout.Seal()
	s.stderr.Seal()
	s.note()
	s.log.Close()
}

// bookWhenLeft has the keeper count the session as ended once nothing of it grows any more.
func (m *Manager) bookWhenLeft(s *Session, late bool) {
	if !late {
		m.book(s)
		return
	}
	time.AfterFunc(m.late, func() {
		s.endLate()
		m.book(s)
	})
}
