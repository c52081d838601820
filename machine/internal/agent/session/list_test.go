package session

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/listing"
	"github.com/berth-dev/berth/machine/internal/agent/record"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func query(t *testing.T, state, cursor string, limit int64) listing.Query {
	t.Helper()
	q, err := listing.Parse(state, cursor, limit)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func all(t *testing.T, m *Manager, state string, limit int64) (rows []wire.ExecListed) {
	t.Helper()
	cursor := ""
	for {
		page := m.List(query(t, state, cursor, limit))
		if len(page.Commands) > int(limit) {
			t.Fatalf("%d of at most %d", len(page.Commands), limit)
		}
		rows = append(rows, page.Commands...)
		if page.NextCursor == nil {
			return rows
		}
		cursor = *page.NextCursor
	}
}

func ids(rows []wire.ExecListed) (ids []string) {
	for _, r := range rows {
		ids = append(ids, r.SessionID)
	}
	return ids
}

// The pause gives the next command a later millisecond.
func runOne(t *testing.T, m *Manager, id, line string) {
	t.Helper()
	s, _, err := m.Start(request(id, line))
	if err != nil {
		t.Fatal(err)
	}
	if s.running() {
		result(t, s)
	}
	time.Sleep(2 * time.Millisecond)
}

func TestCommandsAreListedNewestFirstInPagesByTheirState(t *testing.T) {
	m := open(t, t.TempDir(), 0)
	var expected []string
	for i := range cachedMax + 6 { // more than fit in memory
		id := fmt.Sprintf("done-%d", i)
		runOne(t, m, id, "true")
		expected = append([]string{id}, expected...)
	}
	reads := withInput(request("reads", "cat >&2"), "four")
	reads.StdinOpen = true
	s, _, err := m.Start(reads)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Millisecond)
	missing := request("missing", "")
	missing.Argv = []string{"/does/not/exist"}
	if _, _, err := m.Start(missing); err != nil {
		t.Fatal(err)
	}
	expected = append([]string{"missing", "reads"}, expected...)
	for _, limit := range []int64{1, 7, 200} {
		if got := ids(all(t, m, "", limit)); !slices.Equal(got, expected) {
			t.Fatalf("pages of %d: %v", limit, got)
		}
	}
	if got := ids(all(t, m, listing.Running, 50)); !slices.Equal(got, []string{"reads"}) {
		t.Fatalf("running: %v", got)
	}
	if got := ids(all(t, m, listing.Ended, 50)); !slices.Equal(got, slices.Delete(slices.Clone(expected), 1, 2)) {
		t.Fatalf("ended: %v", got)
	}
	rows := all(t, m, "", 50)
	if r := rows[0]; r.State != record.Failed || r.Error == nil || r.StartedAt != nil || r.EndedAt == nil {
		t.Fatalf("%+v", r)
	}
	if r := rows[1]; r.State != record.Running || r.PID == nil || r.Stdin == nil || !r.Stdin.Open || r.StartedAt == nil || r.EndedAt != nil {
		t.Fatalf("%+v", r)
	}
	if r := rows[len(rows)-1]; r.State != record.Exited || r.ExitCode == nil || *r.ExitCode != 0 || r.EndedAt == nil || r.Cwd != "/" {
		t.Fatalf("%+v", r)
	}
	m.Cancel(s)
	result(t, s)
	if r := all(t, m, "", 2)[1]; r.State != record.Exited || r.Stdin.Open || *r.TermSignal != "SIGTERM" {
		t.Fatalf("%+v", r)
	}
}

func TestCommandsOfEarlierBootsAreListedWithTheirOwnIDs(t *testing.T) {
	dir := t.TempDir()
	m := open(t, dir, 0)
	runOne(t, m, "first", "exit 3")
	runOne(t, m, "second", "true")
	if _, _, err := m.Start(request("lost", "sleep 600")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s, err := m.Get("lost"); err == nil {
			m.Cancel(s)
		}
	})
	torn := filepath.Join(dir, dirName("torn")+recordSuffix)
	if err := os.WriteFile(torn, []byte(`{"fingerprint":"f","record":{"session_id":"to`), 0o600); err != nil {
		t.Fatal(err)
	}
	later := open(t, dir, 0)
	rows := all(t, later, "", 2)
	if got := ids(rows); !slices.Equal(got, []string{"lost", "second", "first"}) {
		t.Fatalf("%v", got)
	}
	if rows[0].State != record.Lost || *rows[2].ExitCode != 3 {
		t.Fatalf("%+v", rows)
	}
	if got := all(t, later, listing.Running, 50); len(got) != 0 {
		t.Fatalf("%v", got)
	}
}

func TestACommandWhoseRecordHasGoneIsListedNoMore(t *testing.T) {
	m := open(t, t.TempDir(), 0)
	m.recordsMax = 2
	for _, id := range []string{"a", "b", "c", "d"} {
		runOne(t, m, id, "true")
	}
	m.mu.Lock()
	m.known, m.cached = map[string]*Session{}, nil
	m.mu.Unlock()
	await(t, func() bool { return slices.Equal(ids(all(t, m, "", 50)), []string{"d", "c"}) })
	await(t, func() bool { return len(m.begins.places()) == 2 }) // records are deleted after the list omits them
}

func TestOfALongCommandAListTellsTheBeginning(t *testing.T) {
	m := open(t, t.TempDir(), 0)
	long := request("long", "")
	long.Argv = append([]string{"/bin/echo", strings.Repeat("ü", 400)}, slices.Repeat([]string{""}, 1000)...)
	empty := request("empty", "")
	empty.Argv = append([]string{"/bin/echo"}, slices.Repeat([]string{""}, 1000)...)
	program := request("program", "")
	program.Argv = []string{"/" + strings.Repeat("x", 5000)}
	for _, req := range []wire.ExecRequest{long, empty, program} {
		s, _, err := m.Start(req)
		if err != nil {
			t.Fatal(err)
		}
		if s.running() {
			result(t, s)
		}
		time.Sleep(2 * time.Millisecond)
	}
	for _, r := range all(t, m, "", 50) {
		bytes := len(r.Argv)
		for _, word := range r.Argv {
			bytes += len(word)
			if strings.ToValidUTF8(word, "") != word {
				t.Errorf("%s: a character is cut", r.SessionID)
			}
		}
		if !r.ArgvTruncated || bytes > 512 || bytes < 400 || r.Error != nil && len(*r.Error) > 600 {
			t.Errorf("%s: %d bytes, %v", r.SessionID, bytes, r.ArgvTruncated)
		}
	}
}

func TestWhatIsNoPlaceOfAListIsRefused(t *testing.T) {
	for _, cursor := range []string{"x", "5", "5-", "-5-" + strings.Repeat("ab", 32), "5-" + strings.Repeat("zz", 32), "5-abcd"} {
		if _, err := listing.Parse("", cursor, 5); err == nil {
			t.Errorf("%q is taken", cursor)
		}
	}
	if _, err := listing.Parse("starting", "", 5); err == nil {
		t.Error("a state that is none is taken")
	}
}
