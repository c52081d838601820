package pty

import (
	"path/filepath"

	"github.com/berth-dev/berth/machine/internal/agent/listing"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func (m *Manager) List(q listing.Query) wire.PtyList {
	m.index.Do(m.load)
	all := map[string]wire.PtyRecord{}
	places := []listing.Position{}
	for _, t := range m.all() {
		name, r := filepath.Base(t.dir), t.Record()
		if at := listing.At(r.StartedAt, r.EndedAt); at > 0 && q.Matches(r.State) {
			all[name] = r
			places = append(places, listing.Position{At: at, Name: name})
		}
	}
	rows, next := listing.Page(q, places, func(place listing.Position) (wire.PtyListed, bool) {
		return listed(all[place.Name]), true
	})
	return wire.PtyList{Terminals: rows, NextCursor: next}
}

func listed(r wire.PtyRecord) wire.PtyListed {
	argv, isCut := listing.CutArgv(r.Argv)
	return wire.PtyListed{SessionID: r.SessionID, Argv: argv, ArgvTruncated: isCut, Cwd: r.Cwd, User: r.User, State: r.State, PID: r.PID,
		PtySize: r.PtySize, ExitCode: r.ExitCode, TermSignal: r.TermSignal, StartedAt: r.StartedAt, EndedAt: r.EndedAt,
		Error: listing.CutError(r.Error), Bytes: r.Bytes}
}
