package engine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestADirectoryIsSealedWhenTheLastWriterHasClosed(t *testing.T) {
	dir := t.TempDir()
	err := mountEmpty(dir, func(dir string) error {
		file, err := os.Create(filepath.Join(dir, "passwd"))
		if err == nil {
			time.AfterFunc(30*time.Millisecond, func() { file.Close() })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	if err := os.WriteFile(filepath.Join(dir, "passwd"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("a write answers %v", err)
	}
}
