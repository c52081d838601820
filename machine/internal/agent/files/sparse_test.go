package files

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
)

type data struct {
	at    int64
	bytes int
}

func makeSparse(t *testing.T, path string, size int64, parts ...data) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	for _, part := range parts {
		content := make([]byte, part.bytes)
		for i := range content {
			content[i] = byte(int64(i)*7 + part.at>>12 + 1)
		}
		_, err := f.WriteAt(content, part.at)
		must(t, err)
	}
	must(t, f.Truncate(size))
}

func sparseFiles(t *testing.T, dir string, large int64) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
	makeSparse(t, filepath.Join(dir, "all"), large)
	makeSparse(t, filepath.Join(dir, "first"), 5<<20+3, data{0, 5000})
	makeSparse(t, filepath.Join(dir, "last"), 5<<20+3, data{5<<20 - 10, 13})
	makeSparse(t, filepath.Join(dir, "middle"), 8<<20, data{1 << 20, 70_000}, data{2 << 20, 4096}, data{4<<20 + 100, 1})
	makeSparse(t, filepath.Join(dir, "near"), 3<<20, data{2 << 20, 10}, data{2<<20 + 16<<10, 10})
	makeSparse(t, filepath.Join(dir, "small"), 1<<20-1, data{0, 1})
	makeSparse(t, filepath.Join(dir, "sub", "ü "+string(bytes.Repeat([]byte("n"), 150))), 2<<20, data{1 << 20, 100})
	must(t, os.WriteFile(filepath.Join(dir, "whole"), bytes.Repeat([]byte("x"), 2<<20), 0o640))
	then := time.Unix(-3, 250_000_000)
	must(t, os.Chtimes(filepath.Join(dir, "first"), then, then))
	must(t, os.Chmod(filepath.Join(dir, "middle"), 0o4751))
}

func sameFiles(t *testing.T, want, got string) {
	t.Helper()
	count := 0
	must(t, filepath.WalkDir(want, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		count++
		rel, _ := filepath.Rel(want, path)
		other := filepath.Join(got, rel)
		var a, b unix.Stat_t
		must(t, unix.Stat(path, &a))
		must(t, unix.Stat(other, &b))
		if a.Size != b.Size || a.Mode != b.Mode || abs(a.Mtim.Nano()-b.Mtim.Nano()) > 1_000_100 { // Python rounds
			t.Errorf("%s: %d %o %d, not %d %o %d", rel, b.Size, b.Mode, b.Mtim.Nano(), a.Size, a.Mode, a.Mtim.Nano())
		}
		if a.Size >= holesBytesMin && b.Blocks > a.Blocks+256 {
			t.Errorf("%s takes %d blocks, not %d", rel, b.Blocks, a.Blocks)
		}
		if a.Size < 1<<30 && digestOf(t, path) != digestOf(t, other) {
			t.Errorf("%s has another content", rel)
		}
		return nil
	}))
	if count != 8 {
		t.Fatal(count)
	}
}

func abs(n int64) int64 { return max(n, -n) }

func digestOf(t *testing.T, path string) [32]byte {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return sha256.Sum256(content)
}

func run(t *testing.T, stdin []byte, dir, name string, args ...string) []byte {
	t.Helper()
	command := exec.Command(name, args...)
	command.Dir, command.Stdin, command.Stderr = dir, bytes.NewReader(stdin), os.Stderr
	out, err := command.Output()
	must(t, err)
	return out
}

func TestHolesAreNotSentAndEveryReaderPutsThemBack(t *testing.T) {
	r, root := tree(t)
	from := filepath.Join(root, "home/user/d")
	sparseFiles(t, from, 50<<30)
	packed := packed(t, r, "/home/user/d")
	if len(packed) > 4<<20 {
		t.Fatalf("%d bytes for 50 GiB of holes", len(packed))
	}
	_, err := Unpack(r, "/home/user/back", bytes.NewReader(packed), UnpackOptions{Owner: me, CreateParents: true})
	must(t, err)
	sameFiles(t, from, filepath.Join(root, "home/user/back"))
	for name, command := range map[string][]string{
		"tar":    {"tar", "-xpf", "-"},
		"python": {"python3", "-c", "import sys, tarfile; tarfile.open(fileobj=sys.stdin.buffer, mode='r|').extractall('.', filter='fully_trusted')"},
	} {
		to := t.TempDir()
		run(t, packed, to, command[0], command[1:]...)
		t.Log(name)
		sameFiles(t, from, to)
	}
}

func TestWithoutHolesAllOfAFileIsSent(t *testing.T) {
	r, root := tree(t)
	must(t, os.MkdirAll(filepath.Join(root, "home/user/d"), 0o755))
	makeSparse(t, filepath.Join(root, "home/user/d/f"), 3<<20, data{1 << 20, 10})
	p, err := OpenPack(r, "/home/user/d", false, nil)
	must(t, err)
	defer p.Close()
	var out bytes.Buffer
	must(t, p.Send(&out))
	h, err := tar.NewReader(&out).Next()
	must(t, err)
	if h.Name != "f" || h.Size != 3<<20 || out.Len() < 3<<20 || hasHoles(h) {
		t.Fatalf("%+v", h)
	}
}

func TestWhatTarWritesOfFilesWithHolesIsUnpackedInEachOfItsFormats(t *testing.T) {
	r, root := tree(t)
	from := t.TempDir()
	sparseFiles(t, from, 2<<30)
	for _, format := range [][]string{{"--format=gnu"}, {"--format=posix"}, {"--format=posix", "--sparse-version=0.1"}, {"--format=posix", "--sparse-version=0.0"}} {
		body := run(t, nil, from, "tar", append(format, "-c", "--sparse", "all", "first", "last", "middle", "near", "small", "sub", "whole")...)
		_, err := Unpack(r, "/home/user/d", bytes.NewReader(body), UnpackOptions{Owner: me, CreateParents: true})
		if err != nil {
			t.Fatal(format, err)
		}
		if format[0] == "--format=gnu" { // GNU format has whole seconds, and none before 1970
			must(t, exec.Command("touch", "-r", filepath.Join(from, "first"), filepath.Join(root, "home/user/d/first")).Run())
			from, to := filepath.Join(from, "."), filepath.Join(root, "home/user/d")
			must(t, exec.Command("sh", "-c", `cd "$1" && find . -type f -exec touch -r {} "$2"/{} \;`, "sh", from, to).Run())
		}
		sameFiles(t, from, filepath.Join(root, "home/user/d"))
		must(t, os.RemoveAll(filepath.Join(root, "home/user/d")))
	}
}

type onWrite struct {
	bytes.Buffer
	after int
	do    func()
}

func (w *onWrite) Write(b []byte) (int, error) {
	n, err := w.Buffer.Write(b)
	if w.do != nil && w.Len() > w.after {
		w.do()
		w.do = nil
	}
	return n, err
}

func TestATarWithAFileThatShrinksIsNotWhole(t *testing.T) {
	r, root := tree(t)
	must(t, os.MkdirAll(filepath.Join(root, "home/user/d"), 0o755))
	path := filepath.Join(root, "home/user/d/f")
	for what, size := range map[string]int64{"in its data": 4<<20 + 1000, "in a hole behind it": 5 << 20} {
		makeSparse(t, path, 8<<20, data{4 << 20, 600_000})
		p, err := OpenPack(r, "/home/user/d", true, nil)
		must(t, err)
		out := &onWrite{do: func() { must(t, os.Truncate(path, size)) }}
		if got := reason(p.Send(out)); got != "operation_interrupted" {
			t.Error(what, got)
		}
		p.Close()
	}
}

func TestAFileWithManyHolesHasABoundedMap(t *testing.T) {
	r, root := tree(t)
	dir := filepath.Join(root, "home/user/d")
	must(t, os.MkdirAll(dir, 0o755))
	f, err := os.Create(filepath.Join(dir, "f"))
	must(t, err)
	defer f.Close()
	const every = 128 << 10
	for i := range int64(sparsePiecesMax + 100) {
		_, err := f.WriteAt([]byte("x"), i*every)
		must(t, err)
	}
	var st unix.Stat_t
	must(t, unix.Fstat(int(f.Fd()), &st))
	pieces := dataOf(f, st.Size)
	last := pieces[len(pieces)-1]
	if len(pieces) != sparsePiecesMax || last.at+last.size != st.Size || last.at != (sparsePiecesMax-1)*every {
		t.Fatal(len(pieces), last, st.Size)
	}
	archive := tar.NewReader(bytes.NewReader(packed(t, r, "/home/user/d")))
	h, err := archive.Next()
	must(t, err)
	n, err := io.Copy(io.Discard, archive)
	if h.Name != "f" || n != st.Size || err != nil {
		t.Fatal(h.Name, n, err)
	}
}

func TestLyingMapsAreRefused(t *testing.T) {
	r, root := tree(t)
	head := func(real int64, content string) []byte {
		h := &tar.Header{Name: "f", Mode: 0o644, Size: real}
		out := append(sparseHead(h, int64(len(content))), padded([]byte(content))...)
		return append(out, make([]byte, 2*tarBlock)...)
	}
	block := func(sparseMap, data string) string { return string(padded([]byte(sparseMap))) + data }
	for what, body := range map[string][]byte{
		"behind the end":     head(10, block("1\n5\n10\n", "0123456789")),
		"not in order":       head(100, block("2\n50\n5\n0\n5\n", "0123456789")),
		"more than is there": head(100, block("1\n0\n50\n", "0123456789")),
		"no numbers":         head(100, block("1\nx\n5\n", "01234")),
		"without an end":     head(100, "99999999"),
	} {
		var refusal *fail.Error
		if err := unpack(r, "/home/user", body, UnpackOptions{}); !errors.As(err, &refusal) || refusal.Status != 422 {
			t.Errorf("%s: %v", what, err)
		}
	}
	var refusal *fail.Error
	if err := unpack(r, "/home/user", head(sparseBytesMax+1, block("0\n", "")), UnpackOptions{}); !errors.As(err, &refusal) || refusal.Status != 413 {
		t.Error(err)
	}
	if names := leftIn(t, filepath.Join(root, "home/user")); len(names) != 0 {
		t.Fatal("a part was left:", names)
	}
}

func TestASizeBeyondOctalIsRead(t *testing.T) {
	for _, size := range []int64{0, 1<<33 - 1, 1 << 33, 1 << 50} {
		h, err := tar.NewReader(bytes.NewReader(plainHead(tar.TypeReg, "x", 0o644, size))).Next()
		if err != nil || h.Size != size {
			t.Fatal(size, h, err)
		}
	}
}
