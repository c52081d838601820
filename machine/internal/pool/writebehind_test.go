package pool

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
)

func TestABlankDiskOutlivesAPowerCutOnceItIsDurable(t *testing.T) {
	p, c := openTestPool(t)
	must(t, p.Sync(""))
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.CreateDisk(ws, "e1.5"))
	p.WaitDurable()
	dir := t.TempDir()
	cut := Config{Image: filepath.Join(dir, "cut.img"), Mount: filepath.Join(dir, "cut")}
	must(t, exec.Command("cp", "--sparse=always", c.Image, cut.Image).Run()) // the content of the drive at this instant
	must(t, p.Close())                                                       // a btrfs can be mounted only once
	after := must1(Open(context.Background(), cut))(t)
	t.Cleanup(func() { must(t, after.Close()) })
	must(t, after.DropHalfMade(context.Background()))
	for _, part := range []string{"upper", "work", "state"} {
		if _, err := os.Stat(filepath.Join(after.DiskPath(ws, "e1.5"), part)); err != nil {
			t.Errorf("after the cut: %v", err)
		}
	}
	if _, err := after.groupID(ws); err != nil {
		t.Errorf("the workspace's limit after the cut: %v", err)
	}
}

func TestThoseWhoAskDuringACommitShareTheNextAndNobodyWaits(t *testing.T) {
	var commits atomic.Int64
	began, leave := make(chan struct{}), make(chan struct{})
	b := writeBehind{commit: func() error {
		if commits.Add(1) == 1 {
			close(began)
			<-leave
		}
		return nil
	}}
	b.requestCommit()
	<-began
	for range 8 {
		b.requestCommit()
	}
	close(leave)
	b.wait()
	if count := commits.Load(); count != 2 {
		t.Errorf("%d commits for one request before and eight during the first", count)
	}
	b.wait()
	b.requestCommit()
	b.wait()
	if count := commits.Load(); count != 3 {
		t.Errorf("%d commits after one more request", count)
	}
}

func TestASnapshotHoldsWhatWasNotSyncedAndOutlivesAPowerCut(t *testing.T) {
	p, c := openTestPool(t)
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.CreateDisk(ws, "d1"))
	content := bytes.Repeat([]byte("written and not synced\n"), 1<<20)
	must(t, os.WriteFile(filepath.Join(p.DiskPath(ws, "d1"), "upper", "file"), content, 0o600))
	must(t, p.SnapshotDisk(p.DiskPath(ws, "d1"), ws, p.DiskPath(ws, "d2"), true))
	dir := t.TempDir()
	cut := Config{Image: filepath.Join(dir, "cut.img"), Mount: filepath.Join(dir, "cut")}
	must(t, exec.Command("cp", "--sparse=always", c.Image, cut.Image).Run()) // the content of the drive at this instant
	must(t, p.Close())
	after := must1(Open(context.Background(), cut))(t)
	t.Cleanup(func() { must(t, after.Close()) })
	if kept := must1(os.ReadFile(filepath.Join(after.DiskPath(ws, "d2"), "upper", "file")))(t); !bytes.Equal(kept, content) {
		t.Errorf("%d bytes of %d are there after the cut", len(kept), len(content))
	}
}
