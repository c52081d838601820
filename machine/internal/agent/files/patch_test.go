package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func edit(path string, edits ...wire.TextEdit) wire.PatchRequest {
	return wire.PatchRequest{Path: path, Edits: edits}
}

func whole(path, content string) wire.PatchRequest {
	return wire.PatchRequest{Path: path, Content: &content}
}

func TestEditsApplyOneAfterTheOtherAndKeepTheMode(t *testing.T) {
	r, root := tree(t)
	must(t, os.WriteFile(filepath.Join(root, "f"), []byte("one two two"), 0o640))
	got, err := Patch(r, edit("/f", wire.TextEdit{OldText: "one", NewText: "1"}, wire.TextEdit{OldText: "1 two", NewText: "1 2"}, wire.TextEdit{OldText: "t", NewText: "T", ReplaceAll: true}), PatchOptions{Owner: me})
	must(t, err)
	text, _ := content(t, r, "/f")
	want := wire.PatchResult{Path: "/f", Revision: sumOf([]byte("1 2 Two")), PreviousRevision: sumOf([]byte("one two two")), BytesWritten: 7, Durable: true, Replacements: 3,
		File: wire.FileInfo{Path: "/f", Name: "f", Type: "file", Size: 7, Mode: "0640", Revision: sumOf([]byte("1 2 Two")), ModifiedAt: got.File.ModifiedAt}}
	if text != "1 2 Two" || got != want {
		t.Fatalf("%q\n got %+v\nwant %+v", text, got, want)
	}
}

func TestContentCreatesReplacesAndFollowsALink(t *testing.T) {
	r, root := tree(t)
	got, err := Patch(r, whole("/home/user/new", "text"), PatchOptions{Owner: me})
	must(t, err)
	if got.PreviousRevision != "absent" || got.Replacements != 0 || got.File.Mode != "0644" {
		t.Fatalf("%+v", got)
	}
	must(t, os.Symlink("new", filepath.Join(root, "home/user/link")))
	_, err = Patch(r, whole("/home/user/link", "through"), PatchOptions{Owner: me})
	must(t, err)
	if text, _ := content(t, r, "/home/user/new"); text != "through" {
		t.Fatal(text)
	}
}

func TestEveryRefusedPatchChangesNothing(t *testing.T) {
	r, root := tree(t)
	text := "a a\nb"
	must(t, os.WriteFile(filepath.Join(root, "f"), []byte(text), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "binary"), []byte{'a', 0}, 0o644))
	must(t, os.WriteFile(filepath.Join(root, "latin"), []byte{'a', 0xe9}, 0o644))
	must(t, syscall.Mkfifo(filepath.Join(root, "fifo"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "sparse"), nil, 0o644))
	must(t, os.Truncate(filepath.Join(root, "sparse"), 1<<40))
	expecting := func(req wire.PatchRequest, revision string) wire.PatchRequest {
		req.ExpectedRevision = revision
		return req
	}
	a := wire.TextEdit{OldText: "a", NewText: "x"}
	empty := ""
	for _, c := range []struct {
		req  wire.PatchRequest
		want string
		also any // in the details
	}{
		{edit("/f", wire.TextEdit{OldText: "b", NewText: "c"}, wire.TextEdit{OldText: "z"}), "edit_not_found", 1},
		{edit("/f", wire.TextEdit{OldText: "z", ReplaceAll: true}), "edit_not_found", 0},
		{edit("/f", a), "edit_ambiguous", 0},
		{edit("/f", wire.TextEdit{OldText: "", NewText: "x"}), "patch_invalid", 0},
		{edit("/f"), "patch_invalid", nil},
		{wire.PatchRequest{Path: "/f", Content: &empty, Edits: []wire.TextEdit{a}}, "patch_invalid", nil},
		{edit("/binary", a), "edit_not_text", nil},
		{edit("/latin", a), "edit_not_text", nil},
		{edit("/none", a), "path_not_found", nil},
		{expecting(edit("/none", a), sumOf(nil)), "revision_mismatch", "absent"},
		{expecting(whole("/f", "x"), "absent"), "revision_mismatch", sumOf([]byte(text))},
		{expecting(edit("/f", a), sumOf(nil)), "revision_mismatch", sumOf([]byte(text))},
		{edit("/fifo", a), "not_a_file", nil},
		{whole("/home", "x"), "not_a_file", nil},
		{whole("/home/", "x"), "not_a_file", nil},
		{whole("/f/x", "x"), "not_a_directory", nil},
		{whole("/no/x", "x"), "path_not_found", nil},
		{edit("/sparse", a), "", int64(PatchFileBytesMax)},
	} {
		_, err := Patch(r, c.req, PatchOptions{Owner: me})
		also := detail(err, "index", "current_revision", "max_bytes")
		if reason(err) != c.want || c.also != also {
			t.Errorf("%+v: %v %v", c.req, err, also)
		}
	}
	if got, _ := content(t, r, "/f"); got != text {
		t.Fatal(got)
	}
}

func TestOverlappingOccurrencesAreAmbiguous(t *testing.T) {
	if _, _, err := applyEdits([]byte("aaa"), []wire.TextEdit{{OldText: "aa"}}); reason(err) != "edit_ambiguous" {
		t.Fatal(err)
	}
	next, n, err := applyEdits([]byte("aaa"), []wire.TextEdit{{OldText: "aa", NewText: "b", ReplaceAll: true}})
	if string(next) != "ba" || n != 1 || err != nil {
		t.Fatal(string(next), n, err)
	}
}

func TestAnEditMayNotGrowAFileBeyondItsBound(t *testing.T) {
	_, _, err := applyEdits([]byte(strings.Repeat("a", 1<<20)), []wire.TextEdit{{OldText: "a", NewText: strings.Repeat("b", 1000), ReplaceAll: true}})
	if detail(err, "max_bytes") != int64(PatchFileBytesMax) {
		t.Fatal(err)
	}
}

func TestOfManyPatchesOfOneRevisionOneWins(t *testing.T) {
	r, root := tree(t)
	must(t, os.WriteFile(filepath.Join(root, "f"), []byte("0"), 0o644))
	revision := sumOf([]byte("0"))
	for round := range 20 {
		var winner atomic.Pointer[wire.PatchResult]
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				req := whole("/f", fmt.Sprintf("%d %d", round, i))
				req.ExpectedRevision = revision
				got, err := Patch(r, req, PatchOptions{Owner: me})
				switch {
				case err == nil && !winner.CompareAndSwap(nil, &got):
					t.Error("two won")
				case err != nil && reason(err) != "revision_mismatch":
					t.Error(err)
				}
			})
		}
		all.Wait()
		text, err := content(t, r, "/f")
		must(t, err)
		if winner.Load() == nil || sumOf([]byte(text)) != winner.Load().Revision {
			t.Fatalf("round %d: %q", round, text)
		}
		revision = winner.Load().Revision
	}
	if len(fileLocks.of) != 0 {
		t.Fatal("turns are kept")
	}
}

func TestChangesOfOneFileComeInARow(t *testing.T) {
	r, root := tree(t)
	must(t, os.WriteFile(filepath.Join(root, "f"), []byte("count: \n"), 0o644))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			_, err := Patch(r, edit("/f", wire.TextEdit{OldText: "count: ", NewText: "count: |"}), PatchOptions{Owner: me})
			if err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			if _, err := Write(r, "/f", strings.NewReader("+"), WriteOptions{Owner: me, Append: true}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if text, _ := content(t, r, "/f"); text != "count: "+strings.Repeat("|", 20)+"\n"+strings.Repeat("+", 20) {
		t.Fatal(text)
	}
}

func FuzzEdits(f *testing.F) {
	f.Add("one two two", "two", "2", true, "one", "")
	f.Fuzz(func(t *testing.T, text, old1, new1 string, all bool, old2, new2 string) {
		next, n, err := applyEdits([]byte(text), []wire.TextEdit{{OldText: old1 + "x", NewText: new1, ReplaceAll: all}, {OldText: old2 + "y", NewText: new2}})
		if err != nil && reason(err) == "not a refusal" {
			t.Fatal(err)
		}
		if err == nil && (n < 2 || len(next) != len(text)+(n-1)*(len(new1)-len(old1)-1)+len(new2)-len(old2)-1) {
			t.Fatal(n, string(next))
		}
	})
}

func FuzzPaths(f *testing.F) {
	for _, path := range []string{"/home/user/../../etc", "//a//b/", "/a/./b", "/../..", "/\x00", "/home/user/f/.."} {
		f.Add(path)
	}
	outer := f.TempDir()
	root := filepath.Join(outer, "root")
	if err := os.MkdirAll(filepath.Join(root, "home/user"), 0o755); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outer, "canary"), []byte("canary"), 0o644); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string) {
		r := openRoot(t, root)
		if got, err := content(t, r, path); err == nil && got == "canary" {
			t.Fatal("outside")
		} else if err != nil && reason(err) == "not a refusal" {
			t.Fatal(err)
		}
		if _, err := Write(r, path, strings.NewReader("x"), WriteOptions{Owner: me}); err == nil {
			must(t, Delete(r, path, false))
		} else if reason(err) == "not a refusal" {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(outer, "canary")); err != nil || string(b) != "canary" {
			t.Fatal("outside")
		}
	})
}
