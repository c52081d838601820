package pool

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestASettledFileIsNobodysToWrite(t *testing.T) {
	_, c := openTestPool(t)
	path := filepath.Join(c.Mount, "image")
	writer := must1(os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600))(t)
	must1(writer.WriteString("as it was saved"))(t)
	must(t, writer.Truncate(1<<20))
	mapping := must1(unix.Mmap(int(writer.Fd()), 0, 4096, unix.PROT_WRITE, unix.MAP_SHARED))(t)
	before := must1(os.ReadFile(path))(t)
	must(t, SealFile(path))
	must1(writer.WriteAt([]byte("something else!"), 0))(t)
	mapping[100] = 'x'
	must(t, unix.Munmap(mapping))
	must(t, writer.Close())
	if after := must1(os.ReadFile(path))(t); string(after) != string(before) {
		t.Fatalf("the settled file was changed: %q", after[:16])
	}
	inode := func() uint64 {
		var stat unix.Stat_t
		must(t, unix.Stat(path, &stat))
		return stat.Ino
	}
	settled := inode()
	must(t, SealFile(path))
	if inode() != settled {
		t.Fatal("a file that nobody writes was copied")
	}
	if names := must1(filepath.Glob(path + "*"))(t); len(names) != 1 {
		t.Fatalf("left: %v", names)
	}
}
