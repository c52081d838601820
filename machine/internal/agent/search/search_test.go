package search

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func tree(t testing.TB, content map[string]string) (*guestroot.Root, string) {
	t.Helper()
	root := t.TempDir()
	for name, text := range content {
		path := filepath.Join(root, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	r, err := guestroot.OpenDir(root)
	must(t, err)
	t.Cleanup(r.Release)
	return r, root
}

func asked(change func(*wire.SearchRequest)) wire.SearchRequest {
	req := wire.SearchRequest{Path: "/", Pattern: "needle", MaxMatches: 200, MaxFileBytes: 1 << 20}
	if change != nil {
		change(&req)
	}
	return req
}

func found(t *testing.T, r *guestroot.Root, change func(*wire.SearchRequest)) []string {
	t.Helper()
	got, err := Run(r, asked(change), Default, nil)
	must(t, err)
	lines := []string{}
	for _, m := range got.Matches {
		lines = append(lines, fmt.Sprintf("%s:%d:%d:%s", m.Path, m.Line, m.Column, m.Text))
	}
	return lines
}

func same[T any](t *testing.T, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("\n got %v\nwant %v", got, want)
	}
}

func TestMatchesComeByPathAndLineWithTheirContext(t *testing.T) {
	r, _ := tree(t, map[string]string{"b/x.txt": "one\ntwo needle\nthree\r\nfour needle needle\nfive", "a.txt": "needle"})
	got, err := Run(r, asked(func(q *wire.SearchRequest) { q.ContextLines = 1 }), Default, nil)
	must(t, err)
	same(t, got, wire.SearchResult{FilesScanned: 2, Matches: []wire.SearchMatch{
		{Path: "/a.txt", Line: 1, Column: 1, Text: "needle", Before: []string{}, After: []string{}},
		{Path: "/b/x.txt", Line: 2, Column: 5, Text: "two needle", Before: []string{"one"}, After: []string{"three"}},
		{Path: "/b/x.txt", Line: 4, Column: 6, Text: "four needle needle", Before: []string{"three"}, After: []string{"five"}},
	}})
}

func TestPatternsAreLiteralsOrRE2(t *testing.T) {
	r, _ := tree(t, map[string]string{"f": "a.c\nabc\nABC\nÄ"})
	for _, c := range []struct {
		pattern      string
		regex, small bool
		want         []string
	}{
		{"a.c", false, false, []string{"/f:1:1:a.c"}},
		{"a.c", true, false, []string{"/f:1:1:a.c", "/f:2:1:abc"}},
		{"a.c", false, true, []string{"/f:1:1:a.c"}},
		{"ABC", false, true, []string{"/f:2:1:abc", "/f:3:1:ABC"}},
		{"^a.c$", true, true, []string{"/f:1:1:a.c", "/f:2:1:abc", "/f:3:1:ABC"}},
		{"ä", false, true, []string{"/f:4:1:Ä"}},
		{"c\\na", true, false, []string{}},
	} {
		same(t, found(t, r, func(q *wire.SearchRequest) { q.Pattern, q.Regex, q.CaseInsensitive = c.pattern, c.regex, c.small }), c.want)
	}
}

func TestAPatternThatIsNotRE2OrTooLargeIsRefused(t *testing.T) {
	r, _ := tree(t, map[string]string{"f": strings.Repeat("a", 40) + "!"})
	for _, pattern := range []string{`(a)\1`, `(?=a)`, `a(`, ``, strings.Repeat("a", 1<<20), `(.{1000}){1000}`, strings.Repeat(".{1000}", 20), "\xff"} {
		_, err := Run(r, asked(func(q *wire.SearchRequest) { q.Pattern, q.Regex = pattern, true }), Default, nil)
		var refusal *fail.Error
		if !errors.As(err, &refusal) || refusal.Status != 422 {
			t.Errorf("%.20q: %v", pattern, err)
		}
	}
	begun := time.Now()
	same(t, found(t, r, func(q *wire.SearchRequest) { q.Pattern, q.Regex = `(a+)+$`, true }), []string{})
	if time.Since(begun) > 5*time.Second {
		t.Fatal(time.Since(begun))
	}
}

func TestGlobsChooseFilesAndLeaveDirectoriesOut(t *testing.T) {
	r, _ := tree(t, map[string]string{"a.go": "needle", "b/c.go": "needle", "b/c.txt": "needle", "node_modules/d.go": "needle", "b/node_modules/e.go": "needle"})
	for _, c := range []struct{ include, exclude, want []string }{
		{[]string{"*.go"}, []string{"node_modules"}, []string{"/a.go:1:1:needle", "/b/c.go:1:1:needle"}},
		{[]string{"b/*.{go,txt}"}, nil, []string{"/b/c.go:1:1:needle", "/b/c.txt:1:1:needle"}},
		{[]string{"**/c.*"}, []string{"*.txt"}, []string{"/b/c.go:1:1:needle"}},
		{[]string{"*.go"}, []string{"**/node_modules/**"}, []string{"/a.go:1:1:needle", "/b/c.go:1:1:needle"}},
	} {
		same(t, found(t, r, func(q *wire.SearchRequest) { q.Include, q.Exclude = c.include, c.exclude }), c.want)
	}
	for _, bad := range []string{"", "[", "{a", strings.Repeat("a", 257), "{a}{b}{c}{d}"} {
		_, err := Run(r, asked(func(q *wire.SearchRequest) { q.Include = []string{bad} }), Default, nil)
		var refusal *fail.Error
		if !errors.As(err, &refusal) || refusal.Status != 422 {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}

func TestLinksSpecialAndBinaryFilesAreLeftOut(t *testing.T) {
	r, root := tree(t, map[string]string{"d/f": "needle", "binary": "needle\x00", "empty": "", "big": strings.Repeat("x", 1<<20) + "needle", "latin": "needle \xe9"})
	must(t, syscall.Mkfifo(filepath.Join(root, "fifo"), 0o644))
	must(t, os.Symlink("/d", filepath.Join(root, "link")))
	must(t, os.Symlink("/d/f", filepath.Join(root, "flink")))
	must(t, os.Symlink("/loop", filepath.Join(root, "loop")))
	same(t, found(t, r, nil), []string{"/d/f:1:1:needle", "/latin:1:1:needle \uFFFD"})
	same(t, found(t, r, func(q *wire.SearchRequest) { q.Path = "/link" }), []string{"/link/f:1:1:needle"})
	same(t, found(t, r, func(q *wire.SearchRequest) { q.Path = "/flink" }), []string{"/flink:1:1:needle"})
	for path, want := range map[string]string{"/fifo": "not_a_file", "/none": "path_not_found", "/loop": "invalid_path", "x": "invalid_path"} {
		_, err := Run(r, asked(func(q *wire.SearchRequest) { q.Path = path }), Default, nil)
		var refusal *fail.Error
		if !errors.As(err, &refusal) || refusal.Reason != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestALongLineIsCutAroundItsMatch(t *testing.T) {
	r, _ := tree(t, map[string]string{"f": strings.Repeat("é", 5000) + "needle" + strings.Repeat("é", 5000)})
	got, err := Run(r, asked(func(q *wire.SearchRequest) { q.Pattern, q.Regex = "need.e", true }), Default, nil)
	must(t, err)
	m := got.Matches[0]
	if m.Column != 10001 || !strings.Contains(m.Text, "needle") || len(m.Text) > textBytesMax || strings.Contains(m.Text, "\uFFFD") {
		t.Fatalf("%d %q", m.Column, m.Text)
	}
}

func TestEveryBoundHasItsStopReason(t *testing.T) {
	content := map[string]string{"z/z/z": "needle"}
	for i := range 10 {
		content[fmt.Sprint("f", i)] = strings.Repeat("needle\n", 100)
	}
	r, _ := tree(t, content)
	hour := time.Hour
	for _, c := range []struct {
		reason  string
		bounds  Bounds
		matches int
		found   int
	}{
		{stopMatches, Bounds{hour, 1 << 30, 1000, 1 << 20, 10}, 150, 150},
		{stopTime, Bounds{0, 1 << 30, 1000, 1 << 20, 10}, 5000, 0},
		{stopBytes, Bounds{hour, 2000, 1000, 1 << 20, 10}, 5000, 200},
		{stopEntries, Bounds{hour, 1 << 30, 3, 1 << 20, 10}, 5000, 300},
		{stopAnswer, Bounds{hour, 1 << 30, 1000, 2000, 10}, 5000, 17},
		{stopDepth, Bounds{hour, 1 << 30, 1000, 1 << 20, 1}, 5000, 1000},
	} {
		got, err := Run(r, asked(func(q *wire.SearchRequest) { q.MaxMatches = c.matches }), c.bounds, make(chan struct{}))
		must(t, err)
		if got.StopReason == nil || *got.StopReason != c.reason || !got.Truncated || len(got.Matches) != c.found {
			t.Errorf("%s: %d matches, truncated %v", c.reason, len(got.Matches), got.Truncated)
		}
	}
	got, err := Run(r, asked(func(q *wire.SearchRequest) { q.MaxMatches = 1001 }), Default, nil)
	must(t, err)
	if got.Truncated || got.StopReason != nil || len(got.Matches) != 1001 {
		t.Fatalf("%d %v", len(got.Matches), got.StopReason)
	}
}

func TestASlowPatternOnALongLineStopsInTime(t *testing.T) {
	r, _ := tree(t, map[string]string{"f": strings.Repeat("ab", 4<<20)})
	begun := time.Now()
	bounds := Default
	bounds.Time = 300 * time.Millisecond
	got, err := Run(r, asked(func(q *wire.SearchRequest) {
		q.Pattern, q.Regex, q.MaxFileBytes = strings.Repeat("(a|b|ab)*", 200)+"c", true, 16<<20
	}), bounds, nil)
	must(t, err)
	if got.StopReason == nil || *got.StopReason != stopTime || time.Since(begun) > 30*time.Second {
		t.Fatalf("%v after %v", got.StopReason, time.Since(begun))
	}
}

func TestASearchEndsWhenItsCallerGoes(t *testing.T) {
	r, _ := tree(t, map[string]string{"f": "needle"})
	gone := make(chan struct{})
	close(gone)
	if got, err := Run(r, asked(nil), Default, gone); err == nil {
		t.Fatalf("%+v", got)
	}
}

func FuzzRequests(f *testing.F) {
	f.Add("needle", "**/*.{go,txt}", "a/[b-c]?", true, true)
	f.Add("(a+)+$", "*", "", true, false)
	r, _ := tree(f, map[string]string{"a/b.go": "needle\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\n", "c": "\xff\xfe needle"})
	f.Fuzz(func(t *testing.T, text, include, exclude string, regex, small bool) {
		req := asked(func(q *wire.SearchRequest) {
			q.Pattern, q.Regex, q.CaseInsensitive, q.ContextLines = text, regex, small, 2
			q.Include, q.Exclude = []string{include}, []string{exclude}
		})
		begun := time.Now()
		got, err := Run(r, req, Default, nil)
		var refusal *fail.Error
		if err != nil && (!errors.As(err, &refusal) || refusal.Status != 422) {
			t.Fatal(err)
		}
		if time.Since(begun) > Default.Time || len(got.Matches) > 4 {
			t.Fatal(time.Since(begun), got)
		}
	})
}

func TestASearchThatStoppedGoesOnFromItsCursor(t *testing.T) {
	content := map[string]string{"z": "needle"}
	for _, dir := range []string{"a", "a/b", "a.d", "c"} {
		for i := range 5 {
			content[fmt.Sprintf("%s/f%d", dir, i)] = strings.Repeat("needle\nhay\n", i)
		}
	}
	r, _ := tree(t, content)
	whole, err := Run(r, asked(nil), Default, nil)
	must(t, err)
	if whole.NextCursor != nil || len(whole.Matches) != 41 {
		t.Fatalf("%d matches, %v", len(whole.Matches), whole.NextCursor)
	}
	small := Default
	small.Entries, small.FileBytes, small.AnswerBytes = 4, 60, 400
	for _, c := range []struct {
		bounds Bounds
		max    int
	}{{Default, 1}, {Default, 3}, {Default, 40}, {small, 200}} {
		var all []wire.SearchMatch
		for req := asked(func(q *wire.SearchRequest) { q.MaxMatches = c.max }); ; {
			got, err := Run(r, req, c.bounds, nil)
			must(t, err)
			all = append(all, got.Matches...)
			if got.Truncated != (got.NextCursor != nil) {
				t.Fatalf("%+v", got)
			}
			if got.NextCursor == nil {
				break
			}
			if *got.NextCursor == req.Cursor {
				t.Fatal("it stands still at ", req.Cursor, *got.StopReason)
			}
			req.Cursor = *got.NextCursor
		}
		same(t, all, whole.Matches)
	}
}

func TestASearchWhoseTimeIsOverGoesOnWhereItWas(t *testing.T) {
	r, _ := tree(t, map[string]string{"a/b": "needle", "c": "needle"})
	over := Default
	over.Time = -1
	got, err := Run(r, asked(func(q *wire.SearchRequest) { q.MaxMatches = 1 }), Default, nil)
	must(t, err)
	again, err := Run(r, asked(func(q *wire.SearchRequest) { q.Cursor = *got.NextCursor }), over, nil)
	must(t, err)
	same(t, *again.StopReason, "time_limit")
	same(t, *again.NextCursor, *got.NextCursor)
	single, err := Run(r, asked(func(q *wire.SearchRequest) { q.Path, q.MaxMatches = "/a/b", 1 }), Default, nil)
	must(t, err)
	same(t, len(single.Matches), 1)
}

const mountTable = `15 1 0:12 / / rw - 9p none rw
16 15 0:13 / /proc rw - proc proc rw
17 15 0:14 / /tmp rw - 9p none rw
18 15 0:15 / /srv/with\040blank rw - tmpfs none rw
`

func TestASearchKnowsWhatOnlyTheDiskHas(t *testing.T) {
	r, root := tree(t, map[string]string{"proc/1/mountinfo": mountTable, "home/user/f": "needle", "tmp/f": "needle", "srv/with blank/f": "needle"})
	must(t, os.Symlink("home", filepath.Join(root, "link")))
	for path, want := range map[string]bool{"/home": true, "/home/user": true, "/home/user/f": true, "/": false, "/tmp": false, "/tmp/f": false, "/srv": false,
		"/srv/with blank/f": false, "/link/user": false, "/home/../home": false, "/home/": false, "/absent": false} {
		if got := onDisk(r, path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	for _, table := range []string{"", "nonsense\n", "16 15 0:13 / /proc rw - proc proc rw\n", "1 1 0:1 / / rw - a a rw\n2 1 0:2 / / rw - b b rw\n"} {
		must(t, os.WriteFile(filepath.Join(root, "proc/1/mountinfo"), []byte(table), 0o644))
		if onDisk(r, "/home") {
			t.Errorf("%q was believed", table)
		}
	}
}

func TestALongSearchIsLeftToWhoeverReadsTheDisk(t *testing.T) {
	r, _ := tree(t, map[string]string{"proc/1/mountinfo": mountTable, "home/f": strings.Repeat("ab", 4<<20), "tmp/f": strings.Repeat("ab", 4<<20)})
	bounds := Default
	bounds.Time = 300 * time.Millisecond
	search := func(path string) wire.SearchResult {
		got, err := Run(r, asked(func(q *wire.SearchRequest) {
			q.Path, q.OnDiskAfterMS = path, 20
			q.Pattern, q.Regex, q.MaxFileBytes = strings.Repeat("(a|b|ab)*", 200)+"c", true, 16<<20
		}), bounds, nil)
		must(t, err)
		return got
	}
	same(t, search("/home"), wire.SearchResult{OnDisk: true, Matches: []wire.SearchMatch{}})
	if got := search("/tmp"); got.OnDisk || got.StopReason == nil || *got.StopReason != stopTime {
		t.Fatalf("%+v", got)
	}
}
