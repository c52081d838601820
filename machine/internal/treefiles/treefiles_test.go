package treefiles

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestMain(m *testing.M) { os.Exit(testns.Run(m, unix.CLONE_NEWNS)) }

type guest struct {
	t                           *testing.T
	upper, tree, template, root string
	lower                       []string
}

func newGuest(t *testing.T) *guest {
	t.Helper()
	testns.Needs(t)
	base := t.TempDir()
	must(t, unix.Mount("tmpfs", base, "tmpfs", 0, ""))
	t.Cleanup(func() { must(t, unix.Unmount(base, unix.MNT_DETACH)) })
	at := func(name string) string {
		path := filepath.Join(base, name)
		must(t, os.MkdirAll(path, 0o755))
		return path
	}
	g := &guest{t: t, upper: at("upper"), tree: at("tree"), template: at("template"), root: at("root")}
	at("tree/home/user")
	at("template/home/user")
	must(t, os.WriteFile(g.template+"/home/user/.profile", []byte("template"), 0o644))
	g.lower = []string{g.tree, g.template}
	at("work")
	return g
}

// An overlay must not change below its mount: call mount after the changes to the tree.
func (g *guest) mount() {
	g.t.Helper()
	options := "lowerdir=" + strings.Join(g.lower, ":") + ",upperdir=" + g.upper + ",workdir=" + filepath.Join(filepath.Dir(g.upper), "work") + ",redirect_dir=on,index=off,metacopy=off"
	must(g.t, unix.Mount("berth", g.root, "overlay", 0, options))
	g.t.Cleanup(func() { must(g.t, unix.Unmount(g.root, unix.MNT_DETACH)) })
}

func (g *guest) home(path string) string { return filepath.Join(g.root, "home/user", path) }

func (g *guest) put(path, text string) {
	g.t.Helper()
	at := filepath.Join(g.tree, "home/user", path)
	must(g.t, os.MkdirAll(filepath.Dir(at), 0o755))
	must(g.t, os.WriteFile(at, []byte(text), 0o644))
}

func (g *guest) changes(bytesMax, entriesMax int64) []string {
	g.t.Helper()
	upper, err := os.Open(g.upper)
	must(g.t, err)
	defer upper.Close()
	var out bytes.Buffer
	merged := func() (*os.File, error) { return os.Open(g.root) }
	must(g.t, WriteChanges(&out, Changed{Upper: upper, Merged: merged, BytesMax: bytesMax, EntriesMax: entriesMax}))
	return told(g.t, &out)
}

func told(t *testing.T, out io.Reader) (lines []string) {
	t.Helper()
	reader := bufio.NewReaderSize(out, StreamBytes)
	for {
		var entry wire.TreeEntry
		must(t, ReadLine(reader, &entry))
		line := entry.Type + " " + entry.Path
		if entry.Opaque {
			line = "opaque " + line
		}
		content := make([]byte, entry.Size)
		_, err := io.ReadFull(reader, content)
		must(t, err)
		switch entry.Type {
		case wire.TreeEnd:
			slices.Sort(lines)
			return lines
		case wire.TreeRefused:
			return append(lines, "refused "+entry.Why)
		case wire.TreeFile:
			line += "=" + string(content)
		case wire.TreeSymlink:
			line += " -> " + entry.Target
		}
		lines = append(lines, line)
	}
}

func (g *guest) want(lines ...string) {
	g.t.Helper()
	got := g.changes(1<<20, 1000)
	slices.Sort(lines)
	if !slices.Equal(got, lines) {
		g.t.Errorf("told %q, not %q", got, lines)
	}
}

func TestWhatWasNotTouchedIsNotTold(t *testing.T) {
	g := newGuest(t)
	g.put("a", "one")
	g.mount()
	_, err := os.ReadFile(g.home("a"))
	must(t, err)
	must(t, os.WriteFile(g.root+"/elsewhere", nil, 0o644))
	g.want()
}

func TestFilesLinksAndDirectoriesAreToldAsTheyAre(t *testing.T) {
	g := newGuest(t)
	g.put("a", "one")
	g.mount()
	must(t, os.WriteFile(g.home("a"), []byte("two"), 0o644))
	must(t, os.Mkdir(g.home("d"), 0o755))
	must(t, os.Symlink("/etc", g.home("d/link")))
	must(t, os.Link(g.home("a"), g.home("hard")))
	g.want("directory ", "file a=two", "opaque directory d", "symlink d/link -> /etc", "file hard=two")
}

func TestWhatWasRemovedIsToldAndAFilesPlaceMayBeADirectorys(t *testing.T) {
	g := newGuest(t)
	g.put("gone", "x")
	g.put("d/in", "x")
	g.mount()
	must(t, os.Remove(g.home("gone")))
	must(t, os.Remove(g.home(".profile")))
	must(t, os.RemoveAll(g.home("d")))
	must(t, os.Mkdir(g.home("d"), 0o755))
	must(t, os.WriteFile(g.home("d/new"), []byte("n"), 0o644))
	g.want("directory ", "remove gone", "remove .profile", "opaque directory d", "file d/new=n")
}

func TestADirectoryThatWasMovedIsToldWhole(t *testing.T) {
	g := newGuest(t)
	g.put("old/in/file", "kept")
	must(t, os.MkdirAll(g.template+"/home/user/old", 0o755))
	must(t, os.WriteFile(g.template+"/home/user/old/of-template", []byte("t"), 0o644))
	g.mount()
	must(t, os.Rename(g.home("old"), g.home("new")))
	must(t, os.WriteFile(g.home("new/added"), []byte("a"), 0o644))
	g.want("directory ", "remove old", "opaque directory new", "opaque directory new/in", "file new/in/file=kept", "file new/of-template=t", "file new/added=a")
}

func TestARootThatIsGoneIsAnEmptyOne(t *testing.T) {
	g := newGuest(t)
	g.put("a", "one")
	g.mount()
	must(t, os.RemoveAll(g.root+"/home"))
	g.want("opaque directory ")
	must(t, os.MkdirAll(g.root+"/home/user", 0o755))
	must(t, os.WriteFile(g.home("b"), []byte("b"), 0o644))
	g.want("opaque directory ", "file b=b")
}

func TestALinkInThePlaceOfHomeIsNotFollowed(t *testing.T) {
	g := newGuest(t)
	g.mount()
	must(t, os.RemoveAll(g.root+"/home"))
	must(t, os.MkdirAll(g.root+"/other/user", 0o755))
	must(t, os.WriteFile(g.root+"/other/user/secret", []byte("s"), 0o644))
	must(t, os.Symlink("other", g.root+"/home"))
	g.want("opaque directory ")
}

func TestWhatNoTreeHasCountsAsAbsent(t *testing.T) {
	g := newGuest(t)
	g.put("was", "file")
	g.mount()
	must(t, os.Remove(g.home("was")))
	must(t, unix.Mkfifo(g.home("was"), 0o644))
	must(t, unix.Mkfifo(g.home("pipe"), 0o644))
	g.want("directory ", "remove was", "remove pipe")
}

func TestNamesThatAreNotUTF8AndWhatIsTooMuchAreRefused(t *testing.T) {
	for why, make := range map[string]func(g *guest) error{
		wire.TreeNameNotUTF8: func(g *guest) error { return os.WriteFile(g.home("\xff"), nil, 0o644) },
		wire.TreeTooLarge:    func(g *guest) error { return truncated(g.home("sparse"), 1<<40) },
		wire.TreeTooManyEntries: func(g *guest) error {
			for i := range 1001 {
				if err := os.Mkdir(g.home("d"+string(rune('a'+i%26))+strings.Repeat("x", i/26)), 0o755); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		g := newGuest(t)
		g.mount()
		must(t, make(g))
		got := g.changes(1<<20, 1000)
		if last := got[len(got)-1]; last != "refused "+why {
			t.Errorf("%s: told %q", why, last)
		}
	}
}

func truncated(path string, bytes int64) error {
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		return err
	}
	return os.Truncate(path, bytes)
}

func TestAnAppliedTreeIsWhatTheStreamSaysAndNoLinkIsFollowed(t *testing.T) {
	testns.Needs(t)
	root, outside := t.TempDir(), t.TempDir()
	apply := func(entries ...any) error {
		var stream bytes.Buffer
		for _, entry := range entries {
			if content, is := entry.(string); is {
				stream.WriteString(content)
				continue
			}
			line, err := json.Marshal(entry)
			must(t, err)
			stream.Write(append(line, '\n'))
		}
		dir, err := os.Open(root)
		must(t, err)
		defer dir.Close()
		return Apply(dir, Owner{1000, 1001}, bufio.NewReaderSize(&stream, StreamBytes))
	}
	type e = wire.TreeEntry
	end := e{Type: wire.TreeEnd}
	at := time.UnixMilli(1_700_000_000_123)
	must(t, apply(e{Path: "", Type: wire.TreeDirectory, Mode: 0o750, ModifiedMS: at.UnixMilli()},
		e{Path: "d", Type: wire.TreeDirectory, Mode: 0o711, ModifiedMS: at.UnixMilli()},
		e{Path: "d/f", Type: wire.TreeFile, Mode: 0o640, ModifiedMS: at.UnixMilli(), Size: 4}, "text",
		e{Path: "d/out", Type: wire.TreeSymlink, Target: outside, ModifiedMS: at.UnixMilli()}, end))
	for path, mode := range map[string]os.FileMode{"": 0o750, "d": 0o711, "d/f": 0o640} {
		info, err := os.Lstat(filepath.Join(root, path))
		must(t, err)
		if info.Mode().Perm() != mode || !info.ModTime().Equal(at) {
			t.Errorf("%q is %v of %v", path, info.Mode(), info.ModTime())
		}
	}
	var stat unix.Stat_t
	must(t, unix.Lstat(filepath.Join(root, "d/f"), &stat))
	if stat.Uid != 1000 || stat.Gid != 1001 {
		t.Errorf("it is of %d:%d", stat.Uid, stat.Gid)
	}
	for _, path := range []string{"d/out/f", "../f", "d/../f", "/f", "d//f", "."} {
		if err := apply(e{Path: path, Type: wire.TreeFile, Mode: 0o644, Size: 1}, "x", end); err == nil {
			t.Errorf("%q was written", path)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside has %v: %v", left, err)
	}
	must(t, apply(e{Path: "d", Type: wire.TreeRemove}, e{Path: "none", Type: wire.TreeRemove}, end))
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("%v is left: %v", left, err)
	}
	if err := apply(e{Path: "cut", Type: wire.TreeFile, Size: 10}, "short"); err == nil {
		t.Error("a stream that ended in the middle was taken for whole")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
