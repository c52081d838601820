package files

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
)

func packed(t *testing.T, r *guestroot.Root, path string) []byte {
	t.Helper()
	p, err := OpenPack(r, path, true, nil)
	must(t, err)
	defer p.Close()
	var out bytes.Buffer
	must(t, p.Send(&out))
	return out.Bytes()
}

func tarOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		content := h.Uname // tests pass the content in Uname
		h.Uname = ""
		if h.Typeflag == 0 || h.Typeflag == tar.TypeReg {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(content))
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		must(t, w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			_, err := io.WriteString(w, content)
			must(t, err)
		}
	}
	must(t, w.Close())
	return out.Bytes()
}

func unpack(r *guestroot.Root, path string, body []byte, o UnpackOptions) error {
	o.Owner = me
	_, err := Unpack(r, path, bytes.NewReader(body), o)
	return err
}

func leftIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestTarGoesOutAndComesBackTheSame(t *testing.T) {
	r, root := tree(t)
	home := filepath.Join(root, "home/user")
	then := time.Unix(1_700_000_000, 123_000_000)
	must(t, os.MkdirAll(filepath.Join(home, "d/sub"), 0o750))
	must(t, os.WriteFile(filepath.Join(home, "d/sub/é"), []byte("accents"), 0o600))
	must(t, os.WriteFile(filepath.Join(home, "d", strings.Repeat("n", 200)), bytes.Repeat([]byte("x"), 300<<10), 0o755))
	must(t, os.Symlink("sub/é", filepath.Join(home, "d/link")))
	must(t, os.Link(filepath.Join(home, "d/sub/é"), filepath.Join(home, "d/hard")))
	must(t, os.Chtimes(filepath.Join(home, "d/sub/é"), then, then))
	must(t, os.Chtimes(filepath.Join(home, "d/sub"), then, then))
	first := packed(t, r, "/home/user/d")
	result, err := Unpack(r, "/home/user/back", bytes.NewReader(first), UnpackOptions{Owner: me, CreateParents: true})
	must(t, err)
	if result.Entries != 5 || result.Bytes != 300<<10+14 || !result.Durable {
		t.Fatalf("%+v", result)
	}
	if again := packed(t, r, "/home/user/back"); !bytes.Equal(first, again) {
		t.Fatal("another tar came of what was unpacked")
	}
	if names := leftIn(t, filepath.Join(home, "back")); len(names) != 4 {
		t.Fatal(names)
	}
}

func TestTarIsPutOverWhatIsThere(t *testing.T) {
	r, root := tree(t)
	home := filepath.Join(root, "home/user")
	must(t, os.MkdirAll(filepath.Join(home, "d"), 0o755))
	must(t, os.WriteFile(filepath.Join(home, "d/old"), []byte("old"), 0o644))
	must(t, os.WriteFile(filepath.Join(home, "d/both"), []byte("before"), 0o644))
	must(t, unpack(r, "/home/user", tarOf(t, tar.Header{Name: "d/both", Uname: "after"}, tar.Header{Name: "d/new/x", Uname: "x"}), UnpackOptions{}))
	got, err := os.ReadFile(filepath.Join(home, "d/both"))
	must(t, err)
	if names := leftIn(t, filepath.Join(home, "d")); string(got) != "after" || len(names) != 3 {
		t.Fatalf("%q %v", got, names)
	}
	must(t, os.WriteFile(filepath.Join(home, "file"), []byte("file"), 0o644))
	for _, conflict := range []tar.Header{{Name: "d", Uname: "x"}, {Name: "file/x", Uname: "x"}} {
		err := unpack(r, "/home/user", tarOf(t, tar.Header{Name: "good", Uname: "x"}, conflict), UnpackOptions{})
		if got := reason(err); got != "not_a_file" && got != "not_a_directory" {
			t.Fatal(got, err)
		}
	}
	if names := leftIn(t, home); len(names) != 2 {
		t.Fatal("a part was left:", names)
	}
}

func TestHostileTarsAreRefusedAndLeaveNothing(t *testing.T) {
	r, root := tree(t)
	home := filepath.Join(root, "home/user")
	link := func(name, to string) tar.Header {
		return tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeSymlink}
	}
	hard := func(name, to string) tar.Header { return tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeLink} }
	bad := map[string][]tar.Header{
		"above":                      {{Name: "../x", Uname: "x"}},
		"above, in the middle":       {{Name: "a/../../x", Uname: "x"}},
		"absolute":                   {{Name: "/etc/x", Uname: "x"}},
		"an absolute link":           {link("l", "/etc")},
		"a link out":                 {link("a/l", "../../x")},
		"through a link":             {link("l", "."), {Name: "l/x", Uname: "x"}},
		"through a file":             {{Name: "f", Uname: "f"}, {Name: "f/x", Uname: "x"}},
		"a hard link to nothing":     {hard("h", "none")},
		"a hard link out":            {hard("h", "../../etc/shadow")},
		"a hard link through a link": {link("l", "."), hard("h", "l/x")},
		"a device":                   {{Name: "d", Typeflag: tar.TypeChar}},
		"a FIFO":                     {{Name: "d", Typeflag: tar.TypeFifo}},
		"a long name":                {{Name: strings.Repeat("b", 256), Uname: "x"}},
		"a directory and a file":     {{Name: "t/x", Uname: "x"}, {Name: "t", Uname: "x"}},
	}
	for what, headers := range bad {
		body := tarOf(t, append([]tar.Header{{Name: "good", Uname: "good"}}, headers...)...)
		if got := reason(unpack(r, "/home/user", body, UnpackOptions{})); got != "invalid_path" {
			t.Errorf("%s: %s", what, got)
		}
	}
	whole := tarOf(t, tar.Header{Name: "good", Uname: strings.Repeat("x", 2000)})
	for what, body := range map[string][]byte{"cut": whole[:1000], "in a head": whole[:100], "none": []byte("no tar"), "noise": bytes.Repeat([]byte("x"), 1024)} {
		var refusal *fail.Error
		if err := unpack(r, "/home/user", body, UnpackOptions{}); !errors.As(err, &refusal) || refusal.Status != 422 {
			t.Errorf("%s: %v", what, err)
		}
	}
	if names := leftIn(t, home); len(names) != 0 {
		t.Fatal("a part was left:", names)
	}
	must(t, unpack(r, "/home/user", tarOf(t, link("l", "/etc")), UnpackOptions{LinksOut: true}))
	if to, err := os.Readlink(filepath.Join(home, "l")); err != nil || to != "/etc" {
		t.Fatal(to, err)
	}
	if got := reason(unpack(r, "/home/user", tarOf(t, tar.Header{Name: "l/x", Uname: "x"}), UnpackOptions{})); got != "not_a_directory" {
		t.Fatal(got)
	}
}

func TestATarThatIsTooLargeIsRefused(t *testing.T) {
	r, root := tree(t)
	head := tarOf(t, tar.Header{Name: "x", Uname: "x"})[:512]
	copy(head[124:], "77777777777\x00")
	copy(head[148:156], "        ")
	sum := 0
	for _, b := range head {
		sum += int(b)
	}
	copy(head[148:], []byte{byte('0' + sum>>15&7), byte('0' + sum>>12&7), byte('0' + sum>>9&7), byte('0' + sum>>6&7), byte('0' + sum>>3&7), byte('0' + sum&7), 0, ' '})
	var refusal *fail.Error
	if err := unpack(r, "/home/user", head, UnpackOptions{}); !errors.As(err, &refusal) || refusal.Status != 413 {
		t.Fatal(err)
	}
	if names := leftIn(t, filepath.Join(root, "home/user")); len(names) != 0 {
		t.Fatal(names)
	}
}
