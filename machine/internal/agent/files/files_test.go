package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

var me = Owner{os.Getuid(), os.Getgid()}

func tree(t *testing.T) (*guestroot.Root, string) {
	t.Helper()
	outer := t.TempDir()
	root := filepath.Join(outer, "root")
	for _, d := range []string{"root/home/user", "root/etc", "secret"} {
		must(t, os.MkdirAll(filepath.Join(outer, d), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(outer, "secret/canary"), []byte("canary"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "etc/shadow"), []byte("guest's"), 0o644))
	r, err := guestroot.OpenDir(root)
	must(t, err)
	t.Cleanup(r.Release)
	return r, root
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func reason(err error) string {
	var refusal *fail.Error
	if errors.As(err, &refusal) {
		return refusal.Reason
	}
	return "not a refusal"
}

func detail(err error, names ...string) any {
	var refusal *fail.Error
	if errors.As(err, &refusal) {
		for _, name := range names {
			if value, ok := refusal.Details[name]; ok {
				return value
			}
		}
	}
	return nil
}

func openRoot(t *testing.T, root string) *guestroot.Root {
	t.Helper()
	r, err := guestroot.OpenDir(root)
	must(t, err)
	t.Cleanup(r.Release)
	return r
}

func content(t *testing.T, r *guestroot.Root, path string) (string, error) {
	c, err := Read(r, path, 0, -1, true)
	if err != nil {
		return "", err
	}
	defer c.File.Close()
	b, err := io.ReadAll(c)
	must(t, err)
	return string(b), nil
}

func TestNoPathLeavesTheRoot(t *testing.T) {
	r, root := tree(t)
	must(t, os.Symlink("/secret/canary", filepath.Join(root, "home/user/absolute")))
	must(t, os.Symlink("../../../secret/canary", filepath.Join(root, "home/user/relative")))
	must(t, os.Symlink("../../..", filepath.Join(root, "home/user/up")))
	must(t, os.Symlink("/proc/self/root", filepath.Join(root, "home/user/magic")))
	for _, path := range []string{"/home/user/absolute", "/home/user/relative", "/home/user/up/secret/canary",
		"/../secret/canary", "/home/user/../../../../secret/canary", "/home/user/magic/secret/canary"} {
		if got, err := content(t, r, path); reason(err) != "path_not_found" {
			t.Errorf("%s: %q %v", path, got, err)
		}
		_, err := Write(r, path, strings.NewReader("overwritten"), WriteOptions{Owner: me})
		if err == nil {
			_ = Delete(r, path, false)
		}
	}
	b, err := os.ReadFile(filepath.Join(root, "../secret/canary"))
	if err != nil || string(b) != "canary" {
		t.Fatalf("the canary: %q %v", b, err)
	}
	if got, err := content(t, r, "/home/user/../../etc/shadow"); err != nil || got != "guest's" {
		t.Fatalf("%q %v", got, err)
	}
}

func TestAnImpossiblePathIsInvalid(t *testing.T) {
	r, _ := tree(t)
	for _, path := range []string{"", "relative", "/a\x00b", "/" + strings.Repeat("a", 4096), "/\xff\xfe"} {
		if _, err := content(t, r, path); reason(err) != "invalid_path" {
			t.Errorf("%q: %v", path, err)
		}
	}
	if _, err := content(t, r, "/"+strings.Repeat("a/", 300)+"x"); reason(err) != "path_not_found" {
		t.Errorf("300 components: %v", err)
	}
}

func TestAWriteReplacesWholeAndKeepsTheMode(t *testing.T) {
	r, root := tree(t)
	path := filepath.Join(root, "home/user/f")
	got, err := Write(r, "/home/user/f", strings.NewReader("one"), WriteOptions{Owner: me, Mode: "0750"})
	must(t, err)
	sum := sha256.Sum256([]byte("one"))
	if got != (wire.WriteResult{Path: "/home/user/f", BytesWritten: 3, SHA256: hex.EncodeToString(sum[:]), Revision: hex.EncodeToString(sum[:]), Durable: true}) {
		t.Fatalf("%+v", got)
	}
	_, err = Write(r, "/home/user/f", strings.NewReader("two"), WriteOptions{Owner: me})
	must(t, err)
	info, err := os.Stat(path)
	must(t, err)
	if text, _ := content(t, r, "/home/user/f"); text != "two" || info.Mode().Perm() != 0o750 {
		t.Fatalf("%q %v", text, info.Mode())
	}
	must(t, os.Symlink("f", filepath.Join(root, "home/user/link")))
	_, err = Write(r, "/home/user/link", strings.NewReader("through"), WriteOptions{Owner: me})
	must(t, err)
	if text, _ := content(t, r, "/home/user/f"); text != "through" {
		t.Fatalf("the link's target is %q", text)
	}
}

func TestACutOffWriteLeavesTheOldBytesAndNoOtherName(t *testing.T) {
	r, root := tree(t)
	_, err := Write(r, "/home/user/f", strings.NewReader("old"), WriteOptions{Owner: me})
	must(t, err)
	for _, o := range []WriteOptions{{Owner: me}, {Owner: me, Append: true}} {
		for _, path := range []string{"/home/user/f", "/home/user/new"} {
			cut := io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), brokenReader{})
			if _, err := Write(r, path, cut, o); reason(err) != "body_incomplete" {
				t.Fatalf("%v", err)
			}
		}
	}
	big := io.LimitReader(zeroes{}, WriteBytesMax+1)
	var refusal *fail.Error
	if _, err := Write(r, "/home/user/f", big, WriteOptions{Owner: me}); !errors.As(err, &refusal) || refusal.Details["max_bytes"] != int64(WriteBytesMax) {
		t.Fatalf("%v", err)
	}
	names, err := os.ReadDir(filepath.Join(root, "home/user"))
	must(t, err)
	if text, _ := content(t, r, "/home/user/f"); text != "old" || len(names) != 1 {
		t.Fatalf("%q %v", text, names)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { return len(p), nil }

func TestAppendAddsInPlace(t *testing.T) {
	r, _ := tree(t)
	for _, part := range []string{"a", "b"} {
		_, err := Write(r, "/home/user/log", strings.NewReader(part), WriteOptions{Owner: me, Append: true})
		must(t, err)
	}
	got, err := Write(r, "/home/user/log", strings.NewReader("c"), WriteOptions{Owner: me, Append: true})
	must(t, err)
	sum := sha256.Sum256([]byte("abc"))
	if got.Revision != hex.EncodeToString(sum[:]) || got.BytesWritten != 1 {
		t.Fatalf("%+v", got)
	}
}

func TestWhatIsNoFileIsRefusedAtOnce(t *testing.T) {
	r, root := tree(t)
	must(t, syscall.Mkfifo(filepath.Join(root, "fifo"), 0o644))
	must(t, os.Symlink("/loop", filepath.Join(root, "loop")))
	begun := time.Now()
	for path, want := range map[string]string{"/fifo": "not_a_file", "/etc": "not_a_file", "/etc/shadow/x": "not_a_directory",
		"/nothing": "path_not_found", "/loop": "invalid_path"} {
		if _, err := content(t, r, path); reason(err) != want {
			t.Errorf("read %s: %v", path, err)
		}
	}
	for path, want := range map[string]string{"/fifo": "not_a_file", "/etc": "not_a_file", "/etc/": "not_a_file", "/etc/new/": "invalid_path",
		"/etc/shadow/": "not_a_directory", "/no/dir": "path_not_found"} {
		if _, err := Write(r, path, strings.NewReader("x"), WriteOptions{Owner: me}); reason(err) != want {
			t.Errorf("write %s: %v", path, err)
		}
		if _, err := Patch(r, whole(path, "x"), PatchOptions{Owner: me}); reason(err) != want {
			t.Errorf("patch %s: %v", path, err)
		}
	}
	if time.Since(begun) > 10*time.Second {
		t.Fatal("something waited")
	}
}

func TestAnEmptyFileHasARevisionAndOneThatOnlySaysSoHasNone(t *testing.T) {
	r, root := tree(t)
	must(t, os.WriteFile(filepath.Join(root, "empty"), nil, 0o644))
	c, err := Read(r, "/empty", 0, -1, true)
	must(t, err)
	defer c.File.Close()
	if c.Length != 0 || c.Revision != sumOf(nil) {
		t.Fatalf("%+v", c)
	}
	host := openRoot(t, "/")
	c, err = Read(host, "/proc/self/status", 0, -1, true)
	must(t, err)
	defer c.File.Close()
	if b, err := io.ReadAll(c); err != nil || len(b) == 0 || c.Length != -1 || c.Revision != "" {
		t.Fatalf("%q %v %+v", b, err, c)
	}
}

func TestReadTakesRanges(t *testing.T) {
	r, root := tree(t)
	must(t, os.WriteFile(filepath.Join(root, "f"), []byte("0123456789"), 0o644))
	c, err := Read(r, "/f", 3, 4, false)
	must(t, err)
	b, _ := io.ReadAll(c)
	if string(b) != "3456" || c.SizeBytes != 10 || c.Length != 4 || !c.Partial {
		t.Fatalf("%q %+v", b, c)
	}
	var refusal *fail.Error
	if _, err := Read(r, "/f", 11, -1, false); !errors.As(err, &refusal) || refusal.Status != 416 || refusal.Details["size"] != int64(10) {
		t.Fatalf("%v", err)
	}
}

func TestListIsSortedBoundedAndHidesUnfinishedWrites(t *testing.T) {
	r, root := tree(t)
	for _, name := range []string{"b", "a", "c", ".berth-" + strings.Repeat("0", 32) + ".tmp", "bad\xff"} {
		must(t, os.WriteFile(filepath.Join(root, "home/user", name), nil, 0o644))
	}
	list, err := List(r, "/home/user", ListOptions{Limit: 2})
	must(t, err)
	if len(list.Entries) != 2 || list.Entries[0].Name != "a" || list.Entries[1].Path != "/home/user/b" || !list.Truncated {
		t.Fatalf("%+v", list)
	}
	list, err = List(r, "/home/user/", ListOptions{})
	must(t, err)
	if len(list.Entries) != 4 || list.Entries[2].Name != `bad\xff` || list.Truncated {
		t.Fatalf("%+v", list)
	}
	if _, err := List(r, "/etc/shadow", ListOptions{}); reason(err) != "not_a_directory" {
		t.Fatalf("%v", err)
	}
}

func TestMkdirMoveAndDelete(t *testing.T) {
	r, root := tree(t)
	info, err := Mkdir(r, wire.MkdirRequest{Path: "/home/user/a/b/c", Parents: true, Mode: "0700"}, me)
	must(t, err)
	if info.Type != "directory" || info.Mode != "0700" {
		t.Fatalf("%+v", info)
	}
	_, err = Mkdir(r, wire.MkdirRequest{Path: "/home/user/a/b/c", Parents: true}, me)
	must(t, err)
	if _, err := Mkdir(r, wire.MkdirRequest{Path: "/home/user/a"}, me); reason(err) != "already_exists" {
		t.Fatalf("%v", err)
	}
	if _, err := Mkdir(r, wire.MkdirRequest{Path: "/"}, me); reason(err) != "already_exists" {
		t.Fatalf("%v", err)
	}
	if info, err := Mkdir(r, wire.MkdirRequest{Path: "/", Parents: true}, me); err != nil || info.Name != "/" {
		t.Fatalf("%+v %v", info, err)
	}
	if _, err := Mkdir(r, wire.MkdirRequest{Path: "/etc/shadow/x", Parents: true}, me); reason(err) != "not_a_directory" {
		t.Fatalf("%v", err)
	}
	if _, err := Move(r, wire.MoveRequest{From: "/etc/shadow", To: "/home/user/a"}, nil); reason(err) != "already_exists" {
		t.Fatalf("%v", err)
	}
	if _, err := Move(r, wire.MoveRequest{From: "/nothing", To: "/home/user/x"}, nil); reason(err) != "path_not_found" {
		t.Fatalf("%v", err)
	}
	_, err = Move(r, wire.MoveRequest{From: "/etc/shadow", To: "/home/user/a/b/c/s"}, nil)
	must(t, err)
	if err := Delete(r, "/home/user/a", false); reason(err) != "not_empty" {
		t.Fatalf("%v", err)
	}
	must(t, os.Symlink(filepath.Join(root, "../secret"), filepath.Join(root, "home/user/a/outside")))
	must(t, Delete(r, "/home/user/a", true))
	if _, err := os.Stat(filepath.Join(root, "../secret/canary")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/home/..", "/home/."} {
		if err := Delete(r, path, true); reason(err) != "invalid_path" {
			t.Fatalf("%s: %v", path, err)
		}
	}
}

func TestASwappedDirectoryNeverShowsTheOutside(t *testing.T) {
	r, root := tree(t)
	must(t, os.MkdirAll(filepath.Join(root, "d"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "d/canary"), []byte("inside"), 0o644))
	must(t, os.Symlink("../secret", filepath.Join(root, "l")))
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		d, l, x := filepath.Join(root, "d"), filepath.Join(root, "l"), filepath.Join(root, "x")
		for {
			select {
			case <-stop:
				return
			default:
				_, _, _ = os.Rename(d, x), os.Rename(l, d), os.Rename(x, l)
			}
		}
	})
	defer swapper.Wait()
	defer close(stop)
	for range 3000 {
		if got, err := content(t, r, "/d/canary"); err == nil && got != "inside" {
			t.Fatalf("read %q", got)
		}
	}
}
