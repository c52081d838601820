package session

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/record"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// The cell limits the size of the reply, so only the commands with the most time left are listed.
const busyMax = 16

// Activity reports running and busy commands for the cell's idle timeout.
func (m *Manager) Activity() wire.Activity {
	type busy struct {
		session *Session
		left    time.Duration
	}
	now := time.Now()
	var running int
	var counting []busy
	m.processes.Range(func(key, _ any) bool {
		s := key.(*Session)
		if s.belongsToTemplate() {
			return true // a service of the template runs forever, and is not a use of the workspace
		}
		running++
		if left := s.busyFor(now); left > 0 {
			counting = append(counting, busy{s, left})
		}
		return true
	})
	slices.SortFunc(counting, func(a, b busy) int { return cmp.Compare(b.left, a.left) })
	a := wire.Activity{RunningSessions: running, LastEndedAt: m.lastEnded.Load(), Commands: []wire.BusyCommand{}}
	for _, c := range counting[:min(len(counting), busyMax)] {
		r := c.session.Record()
		a.Commands = append(a.Commands, wire.BusyCommand{SessionID: r.SessionID, StartedAt: r.StartedAt, BusyUntil: record.Stamp(now.Add(c.left))})
	}
	if len(a.Commands) > 0 {
		a.BusyUntil = a.Commands[0].BusyUntil
	}
	return a
}
