package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/cgroup"
	"github.com/berth-dev/berth/machine/internal/testns"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func slotWithDisk(t *testing.T, dir string) (file string) {
	t.Helper()
	disk := filepath.Join(dir, "root", "claim", "root")
	must(t, os.MkdirAll(disk, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "slot.json"), []byte("{}"), 0o600))
	must(t, unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { unix.Unmount(disk, unix.MNT_DETACH) })
	file = filepath.Join(disk, "precious")
	must(t, os.WriteFile(file, []byte("x"), 0o600))
	return file
}

func TestAMountThatTheListMissedIsNotWalkedInto(t *testing.T) {
	var random [2]byte
	rand.Read(random[:])
	instance := hex.EncodeToString(random[:])
	testns.NotesGroup(t, instance)
	groups, err := cgroup.Open(instance)
	must(t, err)
	t.Cleanup(func() { must(t, groups.Remove()) })
	real, link := t.TempDir(), filepath.Join(t.TempDir(), "data")
	must(t, os.Symlink(real, link)) // mountinfo does not list the mount under this name
	file := slotWithDisk(t, filepath.Join(real, "slots", "abc123"))
	e, err := OpenToRemove(context.Background(), Config{DataDir: link, RunDir: t.TempDir()}, groups, nil, slog.Default())
	must(t, err)
	if err := e.RemoveOrphan(context.Background(), "abc123"); !errors.Is(err, unix.EBUSY) {
		t.Errorf("a slot that is in use was removed: %v", err)
	}
	if _, err := os.Lstat(file); err != nil {
		t.Errorf("the file on the disk: %v", err)
	}
}

func TestATreeGoesWithItsLinksAndNotWhatTheyName(t *testing.T) {
	dir, kept := filepath.Join(t.TempDir(), "tree"), filepath.Join(t.TempDir(), "kept")
	must(t, os.WriteFile(kept, nil, 0o600))
	must(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "a", "b", "file"), nil, 0o600))
	must(t, os.Symlink(filepath.Dir(kept), filepath.Join(dir, "a", "link")))
	for range 2 { // the second removal finds nothing
		must(t, removeTree(dir))
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the tree: %v", err)
	}
	if _, err := os.Lstat(kept); err != nil {
		t.Errorf("what a link names: %v", err)
	}
}
