package plainfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAFileIsOpenedAsOSDoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if _, err := Open(path, unix.O_RDONLY, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a missing file: %v", err)
	}
	f, err := Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, word := range []string{"one", "two"} {
		if _, err := f.WriteString(word); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(path); string(b) != "onetwo" || err != nil {
		t.Fatalf("%q %v", b, err)
	}
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); flags&unix.FD_CLOEXEC == 0 || err != nil {
		t.Fatalf("a started command would have it: %x %v", flags, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	if _, err := Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("a file that is there: %v", err)
	}
}
