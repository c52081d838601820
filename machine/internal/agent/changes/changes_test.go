package changes

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/files"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/agent/identity"
	"github.com/berth-dev/berth/machine/internal/layers"
	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestMain(m *testing.M) { os.Exit(testns.Run(m, 0)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type disk struct {
	*testing.T
	Trees
}

func openDisk(t *testing.T) *disk {
	t.Helper()
	base := t.TempDir()
	must(t, unix.Mount("tmpfs", base, "tmpfs", 0, ""))
	t.Cleanup(func() { must(t, unix.Unmount(base, unix.MNT_DETACH)) })
	at := func(name string) string { return filepath.Join(base, name) }
	for _, dir := range []string{"disk/upper", "disk/work", "merged", "template", "top/etc", "bottom/etc/app", "bottom/usr/share/doc/x", "bottom/lib/v1", "bottom/lib/v2", "bottom/proc"} {
		must(t, os.MkdirAll(at(dir), 0o755))
	}
	long := time.Unix(1_700_000_000, 0)
	for name, text := range map[string]string{"top/etc/top": "top", "bottom/etc/app/conf": "conf", "bottom/etc/passwd": "passwd", "bottom/etc/mode": "mode", "bottom/etc/type": "type",
		"bottom/usr/share/doc/x/readme": "readme", "bottom/usr/share/doc/copyright": "copyright", "bottom/lib/v1/a": "v1", "bottom/lib/v2/a": "version 2"} {
		must(t, os.WriteFile(at(name), []byte(text), 0o644))
		must(t, os.Chtimes(at(name), long, long))
	}
	must(t, os.Symlink("passwd", at("bottom/etc/link")))
	lower := []string{at("top"), at("bottom")}
	must(t, layers.Overlay(lower, at("disk"), at("merged")))
	must(t, layers.View(lower, at("template")))
	return &disk{T: t, Trees: Trees{Merged: at("merged"), Upper: at("disk/upper"), Template: at("template")}}
}

func (d *disk) at(path string) string { return filepath.Join(d.Merged, path) }

func (d *disk) write(path, text string) {
	d.Helper()
	must(d, os.MkdirAll(filepath.Dir(d.at(path)), 0o755))
	must(d, os.WriteFile(d.at(path), []byte(text), 0o644))
}

func request() Request { return Request{Workspace: "w", Limit: 1000} }

func (d *disk) list(req Request) (lines []string) {
	d.Helper()
	for pages := 0; ; pages++ {
		page, err := Run(d.Trees, req, nil)
		must(d, err)
		if len(page.Changes) > req.Limit || pages > 10_000 {
			d.Fatal("too much")
		}
		for _, c := range page.Changes {
			lines = append(lines, fmt.Sprintf("%s %s %s", c.Kind, c.Type, c.Path))
		}
		if page.NextCursor == nil {
			return lines
		}
		if len(*page.NextCursor) > cursorLengthMax {
			d.Fatal(*page.NextCursor)
		}
		req.Cursor = *page.NextCursor
	}
}

func (d *disk) has(req Request, want ...string) {
	d.Helper()
	for _, limit := range []int{1000, 1, 2} {
		req.Limit = limit
		if got := d.list(req); !slices.Equal(got, want) {
			d.Fatalf("limit %d\n got %q\nwant %q", limit, got, want)
		}
	}
}

func TestAFreshDiskHasNoChanges(t *testing.T) {
	d := openDisk(t)
	d.has(request())
	d.write("/proc/below-a-mount-point", "x")
	d.write("/etc/.berth-"+strings.Repeat("0", 32)+".tmp", "x")
	d.has(request())
}

func TestEveryKindOfChange(t *testing.T) {
	d := openDisk(t)
	d.write("/home/user/new", "new")
	d.write("/etc/passwd", "PASSWD") // same size as the old content
	must(t, os.Chmod(d.at("/etc/mode"), 0o600))
	must(t, os.Remove(d.at("/etc/top")))
	must(t, os.Remove(d.at("/etc/type")))
	must(t, os.MkdirAll(d.at("/etc/type/below"), 0o755))
	must(t, os.Remove(d.at("/etc/link")))
	must(t, os.Symlink("mode", d.at("/etc/link")))
	must(t, os.RemoveAll(d.at("/usr/share/doc")))
	must(t, os.Chmod(d.at("/lib/v1"), 0o700))
	// Opening for writing copies a file to the upper layer, which counts as a change.
	f, err := os.OpenFile(d.at("/lib/v2/a"), os.O_RDWR, 0)
	must(t, err)
	must(t, f.Close())
	d.has(request(),
		"modified symlink /etc/link", "metadata file /etc/mode", "modified file /etc/passwd",
		"deleted file /etc/top", "replaced directory /etc/type", "added directory /etc/type/below",
		"added directory /home", "added directory /home/user", "added file /home/user/new",
		"metadata directory /lib/v1", "deleted directory /usr/share/doc")
}

func TestATemplateDirectoryThatWasRenamedIsAddedThereAndDeletedHere(t *testing.T) {
	d := openDisk(t)
	must(t, os.Rename(d.at("/usr/share/doc"), d.at("/usr/share/moved")))
	d.has(request(), "deleted directory /usr/share/doc", "added directory /usr/share/moved", "added file /usr/share/moved/copyright",
		"added directory /usr/share/moved/x", "added file /usr/share/moved/x/readme")
}

func TestATemplateDirectoryThatTookTheNameOfAnotherIsComparedWithThat(t *testing.T) {
	d := openDisk(t)
	must(t, os.RemoveAll(d.at("/lib/v1")))
	must(t, os.Rename(d.at("/lib/v2"), d.at("/lib/v1")))
	d.has(request(), "modified file /lib/v1/a", "deleted directory /lib/v2")
}

func TestADirectoryThatWasMadeAnewLacksWhatTheTemplateHadInIt(t *testing.T) {
	d := openDisk(t)
	must(t, os.RemoveAll(d.at("/usr/share/doc")))
	must(t, os.MkdirAll(d.at("/usr/share/doc"), 0o755))
	d.write("/usr/share/doc/copyright", "another")
	d.has(request(), "modified file /usr/share/doc/copyright", "deleted directory /usr/share/doc/x")
}

func TestThePrefixChoosesAndTheSummaryCounts(t *testing.T) {
	d := openDisk(t)
	for i := range 25 {
		d.write(fmt.Sprintf("/home/user/f%d", i), "x")
	}
	d.write("/home/user/dir/f", "x")
	d.write("/etc/passwd", "longer than before")
	req := request()
	req.PathPrefix = "/home/user/f2"
	d.has(req, "added file /home/user/f2", "added file /home/user/f20", "added file /home/user/f21", "added file /home/user/f22", "added file /home/user/f23", "added file /home/user/f24")
	req.PathPrefix = "/etc"
	d.has(req, "modified file /etc/passwd")
	req.PathPrefix, req.Summary = "", true
	got, err := Run(d.Trees, req, nil)
	must(t, err)
	if *got.Summary != (wire.ChangeSummary{Added: 29, Modified: 1}) || len(got.Changes) != 0 {
		t.Fatalf("%+v", got.Summary)
	}
}

func TestHashesAreOfTheContents(t *testing.T) {
	d := openDisk(t)
	d.write("/etc/passwd", "new content")
	must(t, os.Remove(d.at("/etc/top")))
	req := request()
	req.Hash = true
	got, err := Run(d.Trees, req, nil)
	must(t, err)
	sum := sha256.Sum256([]byte("new content"))
	if len(got.Changes) != 2 || got.Changes[0].SHA256 != hex.EncodeToString(sum[:]) || got.Changes[1].SHA256 != "" {
		t.Fatalf("%+v", got)
	}
}

func TestPagesOfLongPathsMissAndRepeatNothing(t *testing.T) {
	d := openDisk(t)
	deep := "/deep"
	for range 6 {
		deep += "/" + strings.Repeat("d", 60)
	}
	want := []string{}
	for i := range 40 {
		d.write(fmt.Sprintf("%s/%s%02d/f", deep, strings.Repeat("n", 200), i), "x")
	}
	d.write("/deep-after", "x")
	d.write("/"+strings.Repeat("r", 255), "x")
	d.write("/zz\xff", "x")
	want = d.list(request())
	if len(want) != 7+80+3 || want[0] != "added directory /deep" || want[len(want)-1] != `added file /zz\xff` {
		t.Fatalf("%d %q", len(want), want)
	}
	d.has(request(), want...)
	for _, limit := range []int{7, 13, 89} {
		req := request()
		req.Limit = limit
		if got := d.list(req); !slices.Equal(got, want) {
			t.Fatalf("limit %d: %d entries", limit, len(got))
		}
	}
}

func TestACursorWhosePlaceIsGoneGoesOnBehindIt(t *testing.T) {
	d := openDisk(t)
	dir := "/" + strings.Repeat("d", 118) + "/"
	for i := range 10 {
		d.write(fmt.Sprintf("%s%d", dir, i), "x")
	}
	req := request()
	req.Limit = 6 // the page holds the directory and files 0 to 4
	page, err := Run(d.Trees, req, nil)
	must(t, err)
	must(t, os.Remove(d.at(dir+"4")))
	req.Cursor = *page.NextCursor
	page, err = Run(d.Trees, req, nil)
	must(t, err)
	if len(page.Changes) != 4 || page.Changes[0].Path != dir+"6" {
		t.Fatalf("%+v", page)
	}
}

func TestForeignAndAlteredCursorsAreRefused(t *testing.T) {
	d := openDisk(t)
	d.write("/a", "x")
	d.write("/b", "x")
	req := request()
	req.Limit = 1
	page, err := Run(d.Trees, req, nil)
	must(t, err)
	good := *page.NextCursor
	for _, change := range []func(*Request){
		func(r *Request) { r.Workspace = "other" }, func(r *Request) { r.PathPrefix = "/a" }, func(r *Request) { r.Hash = true },
		func(r *Request) { r.Cursor = good[:len(good)-1] }, func(r *Request) { r.Cursor = "A" + good[1:] }, func(r *Request) { r.Cursor = "' OR 1=1--" },
		func(r *Request) { r.Cursor = strings.Repeat("A", 201) },
		func(r *Request) { r.Limit, r.Cursor = 1001, "" }, func(r *Request) { r.Limit, r.Cursor = 0, "" }, func(r *Request) { r.PathPrefix, r.Cursor = "x", "" },
	} {
		bad := req
		bad.Cursor = good
		change(&bad)
		_, err := Run(d.Trees, bad, nil)
		var refusal *fail.Error
		if !errors.As(err, &refusal) || refusal.Status != 400 {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func FuzzCursors(f *testing.F) {
	req := request()
	f.Add(makeCursor(req, "/a/b", 3), "/a/c")
	f.Add(makeCursor(req, "/"+strings.Repeat("x", 300), 3), "/x")
	f.Fuzz(func(t *testing.T, cursor, path string) {
		bad := req
		bad.Cursor = cursor
		if p, err := parseCursor(bad); err == nil {
			p.reaches(path)
			p.passed(path)
		}
		if path == "" || path[0] != '/' {
			return
		}
		bad.Cursor = makeCursor(req, path, 7)
		p, err := parseCursor(bad)
		if err != nil || p.path != cursorDir(path) || p.count != 7 || (p.found == whole) != (len(path) <= cursorPathMax) {
			t.Fatal(p, err)
		}
	})
}

func TestWhatTheServiceWroteIsNoChangeWhileItIsSo(t *testing.T) {
	d := openDisk(t)
	d.write("etc/mode", "ours\n")
	d.write("etc/new", "made\n")
	req := request()
	req.Own = map[string]identity.File{"/etc/mode": {Content: []byte("ours\n"), Mode: 0o644}, "/etc/new": {Content: []byte("made\n"), Mode: 0o644}}
	if got := d.list(req); len(got) != 0 {
		t.Fatal(got)
	}
	d.write("etc/mode", "Ours\n")
	must(t, os.Chmod(d.at("etc/new"), 0o600))
	want := []string{"modified file /etc/mode", "added file /etc/new"}
	if got := d.list(req); !slices.Equal(got, want) {
		t.Fatal(got)
	}
	must(t, os.Remove(d.at("etc/mode")))
	must(t, os.Remove(d.at("etc/new")))
	must(t, os.Symlink("passwd", d.at("etc/new")))
	want = []string{"deleted file /etc/mode", "added symlink /etc/new"}
	if got := d.list(req); !slices.Equal(got, want) {
		t.Fatal(got)
	}
}

func TestFactsThatAreLeftToTheDiskAreThoseOfTheWalk(t *testing.T) {
	d := openDisk(t)
	for i := range 120 {
		d.write(fmt.Sprintf("new/dir%d/f%03d", i%3, i), strings.Repeat("x", i))
	}
	d.write("new/bad\xff/f", "x")
	d.write("new/é ok/f", "x")
	must(t, os.Chmod(d.at("new/dir0/f000"), 0o4711))
	must(t, os.Symlink("dir0/f003", d.at("new/link")))
	must(t, os.Symlink("dir0", d.at("new/linked")))
	must(t, os.Link(d.at("new/dir0/f003"), d.at("new/hard")))
	must(t, unix.Mkfifo(d.at("new/pipe"), 0o600))
	d.write("etc/app/conf", "other")
	must(t, os.Remove(d.at("etc/passwd")))
	root, err := guestroot.OpenDir(d.Merged)
	must(t, err)
	defer root.Release()
	for _, limit := range []int{7, 1000} {
		for _, from := range []int{1, 100, 10_000} {
			req := request()
			for req.Limit = limit; ; {
				want, err := Run(d.Trees, req, nil)
				must(t, err)
				left := req
				left.OnDiskFrom = from
				got, err := Run(d.Trees, left, nil)
				must(t, err)
				bare := 0
				for i, c := range got.Changes {
					if !c.OnDisk {
						continue
					}
					got.Changes[i] = c.WithFact(files.FactsOf(root, []string{c.Path})[0])
					bare++
				}
				if bare > 0 && bare < from || from == 1 && limit == 1000 && bare < 120 {
					t.Fatalf("limit %d, from %d: %d facts were left out", limit, from, bare)
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("limit %d, from %d\n got %+v\nwant %+v", limit, from, got, want)
				}
				if want.NextCursor == nil {
					break
				}
				req.Cursor = *want.NextCursor
			}
		}
	}
}
