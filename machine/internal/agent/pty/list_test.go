package pty

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/listing"
	"github.com/berth-dev/berth/machine/internal/agent/record"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func list(t *testing.T, m *Manager, state string) (ids []string, rows []wire.PtyListed) {
	t.Helper()
	cursor := ""
	for {
		q, err := listing.Parse(state, cursor, 1)
		if err != nil {
			t.Fatal(err)
		}
		page := m.List(q)
		for _, r := range page.Terminals {
			ids, rows = append(ids, r.SessionID), append(rows, r)
		}
		if page.NextCursor == nil {
			return ids, rows
		}
		cursor = *page.NextCursor
	}
}

func TestTerminalsAreListedNewestFirstAlsoAfterAnotherBoot(t *testing.T) {
	dir := t.TempDir()
	m := open(dir, 0)
	sent(t, start(t, m, request("ended", "/bin/sh", "-c", "exit 5")), 0)
	awaitBooked(t, m)
	time.Sleep(2 * time.Millisecond)
	start(t, m, request("open", "/bin/cat"))
	time.Sleep(2 * time.Millisecond)
	start(t, m, request("failed", "/does/not/exist"))
	for state, expected := range map[string][]string{
		"": {"failed", "open", "ended"}, listing.Running: {"open"}, listing.Ended: {"failed", "ended"},
	} {
		if ids, _ := list(t, m, state); !slices.Equal(ids, expected) {
			t.Errorf("%q: %v", state, ids)
		}
	}
	ids, rows := list(t, open(dir, 0), "")
	if !slices.Equal(ids, []string{"failed", "open", "ended"}) {
		t.Fatalf("%v", ids)
	}
	if rows[0].Error == nil || *rows[2].ExitCode != 5 || rows[1].State != record.Lost || rows[1].Cols != 80 {
		t.Fatalf("%+v", rows)
	}
}
