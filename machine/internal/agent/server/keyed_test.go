package server

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/files"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

type desk struct {
	*machine
	t    *testing.T
	dir  string
	root *guestroot.Root
}

func openDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, dir: t.TempDir()}
	if err := errors.Join(os.Mkdir(filepath.Join(d.dir, "root"), 0o755), os.Mkdir(filepath.Join(d.dir, "state"), 0o755)); err != nil {
		t.Fatal(err)
	}
	root, err := guestroot.OpenDir(filepath.Join(d.dir, "root"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Release)
	d.root = root
	d.boot()
	return d
}

func (d *desk) boot() {
	d.machine = &machine{paths: Paths{ClaimState: filepath.Join(d.dir, "state")}}
}

var nobody = files.Owner{UID: os.Getuid(), GID: os.Getgid()}

func (d *desk) put(body string, o files.WriteOptions) (wire.WriteResult, error) {
	o.Owner = nobody
	return d.writeOnce(httptest.NewRequest(http.MethodPut, "/", strings.NewReader(body)), d.root, "key", "/f", o)
}

func (d *desk) patch(req wire.PatchRequest) (wire.PatchResult, error) {
	req.Path = "/f"
	return d.patchOnce(httptest.NewRequest(http.MethodPost, "/", nil), d.root, "key", req, nobody)
}

func (d *desk) is(want string) {
	d.t.Helper()
	got, err := os.ReadFile(filepath.Join(d.dir, "root", "f"))
	if err != nil || string(got) != want {
		d.t.Fatalf("%q %v, not %q", got, err, want)
	}
}

func (d *desk) has(content string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, "root", "f"), []byte(content), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

// forgetsTheEnd leaves the records of a machine that died right after the change.
func (d *desk) forgetsTheEnd() {
	d.t.Helper()
	path := filepath.Join(d.dir, "state", "writes.ndjson")
	text, err := os.ReadFile(path)
	if err != nil {
		d.t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	if err := os.WriteFile(path, []byte(strings.Join(lines[:len(lines)-2], "")), 0o600); err != nil {
		d.t.Fatal(err)
	}
	d.boot()
}

func reasonOf(err error) string {
	var refusal *fail.Error
	if errors.As(err, &refusal) {
		return refusal.Reason
	}
	return ""
}

func (d *desk) must(result any, err error) any {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
	return result
}

func TestARepeatIsAnsweredAndNotDoneAgainAlsoByTheNextMachine(t *testing.T) {
	d := openDesk(t)
	for _, boot := range []bool{false, true} {
		first := d.must(d.put("x", files.WriteOptions{Append: true}))
		if boot {
			d.boot()
		}
		if again := d.must(d.put("x", files.WriteOptions{Append: true})); again != first {
			t.Fatalf("%+v, not %+v", again, first)
		}
	}
	d.is("x")
	for _, o := range []struct {
		body string
		o    files.WriteOptions
	}{{"y", files.WriteOptions{Append: true}}, {"x", files.WriteOptions{}}, {"x", files.WriteOptions{Append: true, Mode: "0600"}}} {
		if _, err := d.put(o.body, o.o); reasonOf(err) != "operation_id_reused" {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := d.patch(wire.PatchRequest{Edits: []wire.TextEdit{{OldText: "x"}}}); reasonOf(err) != "operation_id_reused" {
		t.Error(err)
	}
}

func TestAnAppendThatTheMachineDiedInIsLookedFor(t *testing.T) {
	d := openDesk(t)
	d.has("old")
	first := d.must(d.put("+", files.WriteOptions{Append: true}))
	d.forgetsTheEnd()
	if again := d.must(d.put("+", files.WriteOptions{Append: true})); again != first {
		t.Fatalf("%+v, not %+v", again, first)
	}
	d.is("old+")
	d.forgetsTheEnd()
	d.has("old") // the change had not taken effect
	d.must(d.put("+", files.WriteOptions{Append: true}))
	d.is("old+")
	d.forgetsTheEnd()
	d.has("something else")
	if _, err := d.put("+", files.WriteOptions{Append: true}); reasonOf(err) != "operation_interrupted" {
		t.Fatal(err)
	}
	d.is("something else")
}

func TestAPatchThatTheMachineDiedInIsLookedFor(t *testing.T) {
	d := openDesk(t)
	d.has("old")
	req := wire.PatchRequest{Edits: []wire.TextEdit{{OldText: "o", NewText: "oo"}}}
	first := d.must(d.patch(req))
	if again := d.must(d.patch(req)); again != first {
		t.Fatalf("%+v, not %+v", again, first)
	}
	d.forgetsTheEnd()
	if again := d.must(d.patch(req)); again != first {
		t.Fatalf("%+v, not %+v", again, first)
	}
	d.is("oold")
	d.forgetsTheEnd()
	d.has("old")
	d.must(d.patch(req))
	d.is("oold")
	d.forgetsTheEnd()
	d.has("o else")
	if _, err := d.patch(req); reasonOf(err) != "operation_interrupted" {
		t.Fatal(err)
	}
	d.is("o else")
}

func TestAWriteThatFailedLeavesItsKeyFree(t *testing.T) {
	d := openDesk(t)
	if _, err := d.patch(wire.PatchRequest{Edits: []wire.TextEdit{{OldText: "x"}}}); reasonOf(err) != "path_not_found" {
		t.Fatal(err)
	}
	d.must(d.put("x", files.WriteOptions{}))
	d.is("x")
}

func TestAnInvalidKeyIsInvalidAndNotMalformed(t *testing.T) {
	for _, keys := range [][]string{{""}, {strings.Repeat("k", 101)}, {"a", "b"}} {
		r := httptest.NewRequest(http.MethodPut, "/", nil)
		r.Header["Idempotency-Key"] = keys
		_, err := keyOf(r)
		if e := fail.From(err); e.Code != "validation_failed" || e.Status != http.StatusUnprocessableEntity {
			t.Errorf("%q: %v", keys, err)
		}
	}
}

func TestAnInterruptedReplaceRunsAgainAndAnotherBodyIsRefused(t *testing.T) {
	d := openDesk(t)
	d.has("old")
	d.must(d.put("new", files.WriteOptions{}))
	d.forgetsTheEnd()
	d.has("later")
	if _, err := d.put("another", files.WriteOptions{}); reasonOf(err) != "operation_id_reused" {
		t.Fatalf("another body: %v", err)
	}
	d.is("later")
	d.must(d.put("new", files.WriteOptions{}))
	d.is("new")
}
