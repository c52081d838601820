package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

type guest struct {
	t       *testing.T
	root    string
	manager Manager
}

func newGuest(t *testing.T, directories ...string) *guest {
	g := &guest{t: t, root: t.TempDir()}
	for _, directory := range append(directories, "d") {
		g.do(os.MkdirAll(filepath.Join(g.root, directory), 0o755))
	}
	return g
}

func (g *guest) do(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *guest) rooted() (*guestroot.Root, error) { return guestroot.OpenDir(g.root) }

func (g *guest) write(path, content string) {
	g.t.Helper()
	g.do(os.WriteFile(filepath.Join(g.root, path), []byte(content), 0o644))
}

func (g *guest) reading(req Request) (events chan wire.WatchEvent, leave func()) {
	g.t.Helper()
	reader, err := g.manager.Open(g.rooted, req)
	g.do(err)
	ctx, cancel := context.WithCancel(context.Background())
	events = make(chan wire.WatchEvent, 10_000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(events)
		defer reader.Close()
		_ = reader.Run(ctx, func(line []byte) error {
			var e wire.WatchEvent
			if err := json.Unmarshal(line, &e); err != nil {
				return err
			}
			events <- e
			return nil
		}, func() error { return nil })
	}()
	leave = func() { cancel(); <-done }
	g.t.Cleanup(leave)
	return events, leave
}

func next(t *testing.T, events chan wire.WatchEvent) (string, wire.WatchEvent) {
	t.Helper()
	select {
	case e, open := <-events:
		if !open {
			return "closed", e
		}
		return strings.TrimSpace(fmt.Sprintln(e.Type, e.Change, e.Path, e.Why)), e
	case <-time.After(testns.Patience(10 * time.Second)):
		t.Fatal("nothing is told")
		return "", wire.WatchEvent{}
	}
}

func expect(t *testing.T, events chan wire.WatchEvent, words ...string) (last wire.WatchEvent) {
	t.Helper()
	for _, want := range words {
		var got string
		if got, last = next(t, events); strings.Join(strings.Fields(got), " ") != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	return last
}

func TestWhatChangesInADirectoryIsToldInItsOrder(t *testing.T) {
	g := newGuest(t, "d/below")
	events, _ := g.reading(Request{Path: "/d/"})
	expect(t, events, "start")
	g.do(os.Mkdir(filepath.Join(g.root, "d/made"), 0o755))
	expect(t, events, "change added /d/made")
	g.write("d/below/unseen", "")
	g.write("d/\xff", "x")
	expect(t, events, `change added /d/\xff`, `change modified /d/\xff`)
	g.do(os.Chmod(filepath.Join(g.root, "d/made"), 0o700))
	expect(t, events, "change metadata /d/made")
	g.do(os.Rename(filepath.Join(g.root, "d/made"), filepath.Join(g.root, "d/moved")))
	expect(t, events, "change deleted /d/made", "change added /d/moved")
	g.do(os.Remove(filepath.Join(g.root, "d/moved")))
	e := expect(t, events, "change deleted /d/moved")
	if e.IsDirectory == nil || !*e.IsDirectory || e.Offset == nil || *e.Offset != 7 {
		t.Fatalf("the last event is %+v", e)
	}
}

func TestOneThatComesBackGoesOnWhereItWas(t *testing.T) {
	g := newGuest(t)
	events, leave := g.reading(Request{Path: "/d"})
	id := expect(t, events, "start").WatchID
	g.write("d/one", "")
	seen := expect(t, events, "change added /d/one")
	leave()
	g.write("d/two", "")
	again, _ := g.reading(Request{Path: "/d", ID: id, Offset: *seen.Offset})
	if e := expect(t, again, "start"); *e.Missed || e.WatchID != id {
		t.Fatalf("it begins with %+v", e)
	}
	expect(t, again, "change added /d/two")
}

func TestOneThatComesBackTooLateIsToldSo(t *testing.T) {
	g := newGuest(t)
	events, leave := g.reading(Request{Path: "/d"})
	id := expect(t, events, "start").WatchID
	leave()
	w := g.manager.watches[id]
	for range eventsMax + 5 {
		w.tell("/f", wire.WatchModified, false)
	}
	again, _ := g.reading(Request{Path: "/d", ID: id})
	if e := expect(t, again, "start"); !*e.Missed || *e.Offset < 5 {
		t.Fatalf("it begins with %+v", e)
	}
	for name, req := range map[string]Request{
		"an unknown watch":        {Path: "/d", ID: "unknown", Offset: 3},
		"one of another path":     {Path: "/", ID: id},
		"an offset of the future": {Path: "/d", ID: id, Offset: 1 << 40},
	} {
		events, _ := g.reading(req)
		if e := expect(t, events, "start"); !*e.Missed {
			t.Fatalf("%s begins with %+v", name, e)
		}
	}
}

func TestWhatIsBelowIsWatchedToo(t *testing.T) {
	g := newGuest(t, "d/a/b")
	events, _ := g.reading(Request{Path: "/d", Recursive: true})
	expect(t, events, "start")
	g.write("d/a/b/f", "")
	expect(t, events, "change added /d/a/b/f")
	g.do(os.MkdirAll(filepath.Join(g.root, "other/x"), 0o755))
	g.write("other/x/f", "")
	g.do(os.Rename(filepath.Join(g.root, "other"), filepath.Join(g.root, "d/new")))
	expect(t, events, "change added /d/new", "change added /d/new/x", "change added /d/new/x/f")
	g.write("d/new/x/g", "")
	expect(t, events, "change added /d/new/x/g")
	g.do(os.Rename(filepath.Join(g.root, "d/new"), filepath.Join(g.root, "gone")))
	expect(t, events, "change deleted /d/new")
	g.write("gone/x/h", "")
	g.write("d/last", "")
	expect(t, events, "change added /d/last")
}

func TestEachNameOfATreeThatIsMadeIsToldOnce(t *testing.T) {
	g := newGuest(t)
	events, _ := g.reading(Request{Path: "/d", Recursive: true})
	expect(t, events, "start")
	const made = 300
	for i := range made {
		dir := fmt.Sprintf("d/%d/%d", i/10, i)
		g.do(os.MkdirAll(filepath.Join(g.root, dir), 0o755))
		g.write(dir+"/f", "")
	}
	added := map[string]int{}
	for len(added) < made*2+made/10 {
		words, e := next(t, events)
		if e.Change == "added" {
			if added[e.Path]++; added[e.Path] > 1 {
				t.Fatalf("%s is told twice", words)
			}
		}
	}
}

func TestADirectoryThatGoesEndsItsWatch(t *testing.T) {
	for how, why := range map[string]string{"deleted": wire.WatchDeleted, "moved": wire.WatchMoved} {
		g := newGuest(t)
		events, _ := g.reading(Request{Path: "/d"})
		start := expect(t, events, "start")
		if how == "deleted" {
			g.do(os.Remove(filepath.Join(g.root, "d")))
		} else {
			g.do(os.Rename(filepath.Join(g.root, "d"), filepath.Join(g.root, "e")))
		}
		end := expect(t, events, "end "+why)
		expect(t, events, "closed")
		g.do(os.MkdirAll(filepath.Join(g.root, "d"), 0o755))
		again, _ := g.reading(Request{Path: "/d", ID: start.WatchID, Offset: *end.Offset})
		if e := expect(t, again, "start"); !*e.Missed || e.WatchID == start.WatchID {
			t.Fatalf("after the end it begins with %+v", e)
		}
	}
}

func TestWhatIsNoDirectoryIsRefused(t *testing.T) {
	g := newGuest(t)
	g.write("f", "")
	for path, reason := range map[string]string{"/f": "not_a_directory", "/none": "path_not_found", "d": "invalid_path"} {
		_, err := g.manager.Open(g.rooted, Request{Path: path})
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s is %v, not %s", path, err, reason)
		}
	}
	if len(g.manager.watches) != 0 {
		t.Error("a watch is left")
	}
}

func TestWatchesThatNobodyReadsMakePlace(t *testing.T) {
	g := newGuest(t)
	for range watchesMax + 3 {
		_, leave := g.reading(Request{Path: "/d"})
		leave()
	}
	if len(g.manager.watches) != watchesMax {
		t.Fatalf("there are %d", len(g.manager.watches))
	}
	for range watchesMax {
		g.reading(Request{Path: "/d"})
	}
	if _, err := g.manager.Open(g.rooted, Request{Path: "/d"}); err == nil || !strings.Contains(err.Error(), "rate_limited") {
		t.Fatalf("one too many is %v", err)
	}
}
