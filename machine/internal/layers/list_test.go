package layers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
	"golang.org/x/sys/unix"
)

func piecesOf(t *testing.T, root string) (all []wire.LayerDirectory, pieces int) {
	t.Helper()
	after := ""
	for {
		list, err := List(context.Background(), root, after)
		must(t, err)
		all, pieces = append(all, list.Directories...), pieces+1
		if list.Done {
			return all, pieces
		}
		after = all[len(all)-1].Path
	}
}

func TestALayerIsListedWithWhatOverlayfsLeftInIt(t *testing.T) {
	store, pool := openTestStore(t, t.TempDir()), openTestPool(t)
	lower := lowerWithMovable(t, store)
	disk := changed(t, pool, []string{lower})
	made := makeOf(t, store, plan(t, filepath.Join(disk, "upper")))
	point, err := store.Mount(made.Digest)
	must(t, err)
	all, _ := piecesOf(t, point)
	found := map[string]wire.LayerEntry{}
	for _, directory := range all {
		for _, entry := range directory.Entries {
			found[filepath.Join(directory.Path, entry.Name)] = entry
		}
	}
	const digest = "2272bea616a05ae194c58b63752b39924a7beed67597c20dcb5586d1ee517290"
	one, two := found["/one"], found["/two"]
	if one.Type != "file" || one.SizeBytes != 6 || one.Mode != 0o640 || one.UID != 1000 || one.GID != 1001 || one.SHA256 != digest || two.SHA256 != digest {
		t.Errorf("/one is %+v, /two %+v", one, two)
	}
	for path, want := range map[string]wire.LayerEntry{
		"/etc/name": {Name: "name", Type: "whiteout"},
		"/old":      {Name: "old", Type: "whiteout"},
		"/etc/sub":  {Name: "sub", Type: "directory", Mode: 0o711, Opaque: true},
		"/moved":    {Name: "moved", Type: "directory", Mode: 0o755, Redirect: "old"},
		"/link":     {Name: "link", Type: "symlink", Mode: 0o777, Target: "../../etc/passwd"},
		"/pipe":     {Name: "pipe", Type: "other", Mode: 0o600},
	} {
		got := found[path]
		if got.Type == "whiteout" {
			got.Mode = 0
		}
		if got != want {
			t.Errorf("%s is %+v, not %+v", path, got, want)
		}
	}
}

func TestAListGoesOnAfterAnyDirectory(t *testing.T) {
	const files, directories = 400, wire.LayerListEntries/400 + 2
	root := t.TempDir()
	for i := range directories {
		dir := filepath.Join(root, "d"+strconv.Itoa(i), "in")
		must(t, os.MkdirAll(dir, 0o755))
		for j := range files {
			must(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(j)), nil, 0o644))
		}
	}
	all, pieces := piecesOf(t, root)
	if len(all) != 1+2*directories || pieces != 2 || all[0].Path != "/" || all[1].Path != "/d0" || all[2].Path != "/d0/in" {
		t.Fatalf("%d directories in %d pieces: %s, %s, %s", len(all), pieces, all[0].Path, all[1].Path, all[2].Path)
	}
	holding := lister{ctx: context.Background(), root: root, entriesMax: wire.LayerListEntries, heldMax: files + directories}
	if err := holding.walk("/", nil); !errors.Is(err, ErrTooManyEntries) || holding.held != 0 {
		t.Errorf("a walk that would hold the names of three directories: %v, %d are held", err, holding.held)
	}
	for i, directory := range all {
		list, err := list(context.Background(), root, directory.Path, files) // a piece is one directory with files
		must(t, err)
		if i+1 < len(all) && list.Directories[0].Path != all[i+1].Path {
			t.Fatalf("after %s comes %s, not %s", directory.Path, list.Directories[0].Path, all[i+1].Path)
		}
	}
	if seen := slices.CompactFunc(slices.Clone(all), func(a, b wire.LayerDirectory) bool { return a.Path == b.Path }); len(seen) != len(all) {
		t.Fatal("a directory came twice")
	}
}

func TestNamesThatAreNotUTF8AreEscaped(t *testing.T) {
	root := t.TempDir()
	must(t, os.Mkdir(filepath.Join(root, "bad\xff"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "bad\xff", "inside"), nil, 0o644))
	must(t, unix.Mkfifo(filepath.Join(root, "p\xfe"), 0o644))
	all, _ := piecesOf(t, root)
	if len(all) != 1 || all[0].Entries[0].Name != `bad\xff` || all[0].Entries[1].Name != `p\xfe` {
		t.Fatalf("%+v", all)
	}
}
