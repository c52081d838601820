package files

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
)

func pathsOf(t *testing.T, r *guestroot.Root, path string, o ListOptions) (paths []string, pages int) {
	t.Helper()
	for {
		list, err := List(r, path, o)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, e := range list.Entries {
			paths = append(paths, e.Path)
		}
		if list.Truncated != (list.NextCursor != nil) || len(list.Entries) > o.Limit {
			t.Fatalf("%+v", list)
		}
		if list.NextCursor == nil {
			return paths, pages
		}
		o.Cursor = *list.NextCursor
	}
}

func TestPagesOfAListAreTheWholeList(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a/1", "a/2/x", "a.b", "a-b", "b/c/d/e", "é", "z\xff/y"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	r, err := guestroot.OpenDir(root)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	for _, c := range []struct {
		recursive bool
		want      []string
	}{
		{false, []string{"/a", "/a-b", "/a.b", "/b", "/link", `/z\xff`, "/é"}},
		{true, []string{"/a", "/a/1", "/a/2", "/a/2/x", "/a-b", "/a.b", "/b", "/b/c", "/b/c/d", "/b/c/d/e", "/link", `/z\xff`, `/z\xff/y`, "/é"}},
	} {
		for limit := 1; limit <= len(c.want)+1; limit++ {
			paths, pages := pathsOf(t, r, "/", ListOptions{Limit: limit, Recursive: c.recursive})
			if !slices.Equal(paths, c.want) || pages != (len(c.want)+limit-1)/limit {
				t.Fatalf("limit %d, %d pages: %q", limit, pages, paths)
			}
		}
	}
}

func TestAListGoesOnBehindWhatIsGone(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a", "b/x", "b/y", "c"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r, err := guestroot.OpenDir(root)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	first, err := List(r, "/", ListOptions{Limit: 3, Recursive: true})
	if err != nil || first.Entries[2].Path != "/b/x" {
		t.Fatal(first, err)
	}
	if err := os.RemoveAll(filepath.Join(root, "b")); err != nil {
		t.Fatal(err)
	}
	if rest, _ := pathsOf(t, r, "/", ListOptions{Limit: 9, Recursive: true, Cursor: *first.NextCursor}); !slices.Equal(rest, []string{"/c"}) {
		t.Fatal(rest)
	}
	if _, err := List(r, "/", ListOptions{Cursor: "?"}); reason(err) != "invalid_cursor" {
		t.Fatal(err)
	}
}
