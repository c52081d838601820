package pool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestADeletionThatCannotBeFinishedDoesNotKeepTheOthersAndIsFinishedLater(t *testing.T) {
	p, _ := openTestPool(t)
	for _, grave := range []string{"first", "held", "last"} {
		must(t, os.MkdirAll(filepath.Join(p.trash(), grave, "checkpoints"), 0o700))
	}
	held := filepath.Join(p.trash(), "held", "checkpoints")
	must(t, unix.Mount("tmpfs", held, "tmpfs", 0, "size=1m"))
	if err := p.EmptyTrash(context.Background()); !errors.Is(err, unix.EBUSY) {
		t.Errorf("a deletion that cannot be finished: %v", err)
	}
	if left := must1(os.ReadDir(p.trash()))(t); len(left) != 1 || left[0].Name() != "held" {
		t.Errorf("left: %v", left)
	}
	must(t, unix.Unmount(held, 0))
	must(t, p.EmptyTrash(context.Background()))
	if left := must1(os.ReadDir(p.trash()))(t); len(left) != 0 {
		t.Errorf("left in the end: %v", left)
	}
}

func TestWhatSomebodyIsDeletingIsLeftToHim(t *testing.T) {
	p, _ := openTestPool(t)
	must(t, os.Mkdir(filepath.Join(p.trash(), "grave"), 0o700))
	p.startDeletion("grave")
	must(t, p.EmptyTrash(context.Background()))
	if _, err := os.Stat(filepath.Join(p.trash(), "grave")); err != nil {
		t.Errorf("what is being deleted: %v", err)
	}
	p.letGo("grave")
	must(t, p.EmptyTrash(context.Background()))
	if _, err := os.Stat(filepath.Join(p.trash(), "grave")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what nobody deletes any more: %v", err)
	}
}

func TestADiskThatDidNotFitIsNotLeftHalfMade(t *testing.T) {
	p, _ := openTestPool(t)
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.setLimit(p.WorkspaceDir(ws), 1)) // the subvolume fits, its directories do not
	if err := p.CreateDisk(ws, "d0"); !errors.Is(err, unix.EDQUOT) {
		t.Fatalf("a disk of one byte: %v", err)
	}
	if left := must1(os.ReadDir(filepath.Join(p.WorkspaceDir(ws), "disks")))(t); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
