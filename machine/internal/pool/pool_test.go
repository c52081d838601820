package pool

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/loopdev"
	"github.com/berth-dev/berth/machine/internal/testns"
	"golang.org/x/sys/unix"
)

const (
	mib = 1 << 20
	ws  = "0198c0de-0000-7000-8000-000000000001"
	ws2 = "0198c0de-0000-7000-8000-000000000002"
)

func openTestPool(t *testing.T, change ...func(*Config)) (*Pool, Config) {
	t.Helper()
	dir := t.TempDir()
	c := Config{Image: filepath.Join(dir, "pool.img"), Mount: filepath.Join(dir, "pool"), SizeBytes: 1 << 30, ReserveBytes: 64 * mib}
	for _, f := range change {
		f(&c)
	}
	p := must1(Open(context.Background(), c))(t)
	t.Cleanup(func() { unix.Unmount(c.Mount, unix.MNT_DETACH) })
	return p, c
}

func must1[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func fill(path string, size int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	block := bytes.Repeat([]byte("berth pool test "), mib/16)
	for written := 0; written < size; written += len(block) {
		if _, err := file.Write(block); err != nil {
			return err
		}
	}
	return file.Sync()
}

func TestAPoolIsMadeOnceAndAdoptedAfterARestart(t *testing.T) {
	p, c := openTestPool(t)
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.CreateDisk(ws, "d1"))
	again := must1(Open(context.Background(), c))(t)
	if disks := must1(again.ListDisks(ws))(t); len(disks) != 1 || disks[0] != "d1" {
		t.Fatalf("disks after a restart in the same mount namespace: %v", disks)
	}
	again.root.Close()
	must(t, p.Close())
	if device := must1(loopdev.Find(c.Image, false))(t); device != nil {
		t.Fatalf("%s still serves the image of a closed pool", device.Name())
	}
	p = must1(Open(context.Background(), c))(t)
	if disks := must1(p.ListDisks(ws))(t); len(disks) != 1 || !p.simple {
		t.Fatalf("after mounting again: disks %v, simple quotas %v", disks, p.simple)
	}
	total, free, reserve := int64(0), int64(0), int64(0)
	total, free, reserve, err := p.Usage()
	if err != nil || total != 1<<30 || free < 512*mib || reserve != 64*mib {
		t.Fatalf("usage: total %d, free %d, reserve %d, %v", total, free, reserve, err)
	}
	must(t, p.Close())
}

func TestTheImageIsPreallocatedAndStaysSo(t *testing.T) {
	p, c := openTestPool(t)
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.CreateDisk(ws, "d1"))
	file := filepath.Join(p.DiskPath(ws, "d1"), "upper/big")
	must(t, fill(file, 200*mib))
	must(t, os.Remove(file))
	must(t, p.Sync(""))
	var stat unix.Stat_t
	must(t, unix.Stat(c.Image, &stat))
	if stat.Blocks*512 < c.SizeBytes {
		t.Fatalf("the image has %d of %d bytes allocated", stat.Blocks*512, c.SizeBytes)
	}
}

func TestAnImageThatDoesNotFitIsRefusedWithENOSPC(t *testing.T) {
	dir := t.TempDir()
	c := Config{Image: filepath.Join(dir, "pool.img"), Mount: filepath.Join(dir, "pool"), SizeBytes: 1 << 50}
	_, err := Open(context.Background(), c)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "are free") {
		t.Fatalf("error %v", err)
	}
	if left := must1(filepath.Glob(c.Image + "*"))(t); len(left) != 0 {
		t.Fatalf("left behind: %v", left)
	}
}

func TestADirectoryThatIsNotBtrfsIsRefused(t *testing.T) {
	if _, err := Open(context.Background(), Config{Mount: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "not on btrfs") {
		t.Fatalf("error %v", err)
	}
}

func TestADirectoryOfABtrfsIsAPoolWithoutAnImage(t *testing.T) {
	p, c := openTestPool(t)
	inner := must1(Open(context.Background(), Config{Mount: filepath.Join(c.Mount, "inner")}))(t)
	must(t, inner.EnsureWorkspace(ws, 1))
	must(t, inner.CreateDisk(ws, "d1"))
	must(t, inner.DeleteWorkspace(ws))
	must(t, inner.Close())
	must(t, p.Close())
}

func TestADiskHasTheDirectoriesOfAMachine(t *testing.T) {
	p, _ := openTestPool(t)
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.CreateDisk(ws, "disk@1.1"))
	for sub, mode := range map[string]os.FileMode{"upper": 0o755, "work": 0o700, "state": 0o700} {
		info := must1(os.Stat(filepath.Join(p.DiskPath(ws, "disk@1.1"), sub)))(t)
		if info.Mode().Perm() != mode || !info.IsDir() {
			t.Errorf("%s is %v", sub, info.Mode())
		}
	}
	if err := p.CreateDisk(ws, "disk@1.1"); !errors.Is(err, unix.EEXIST) {
		t.Errorf("the same disk again: %v", err)
	}
	if err := p.CreateDisk(ws2, "d1"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a disk of an unknown workspace: %v", err)
	}
}

func TestAWritePastTheLimitGetsEDQUOTAlsoThroughAChainOfSnapshots(t *testing.T) {
	p, _ := openTestPool(t)
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.setLimit(p.WorkspaceDir(ws), 64*mib))
	must(t, p.CreateDisk(ws, "d0"))
	must(t, fill(filepath.Join(p.DiskPath(ws, "d0"), "upper/a"), 24*mib))
	must(t, p.SnapshotDisk(p.DiskPath(ws, "d0"), ws, p.DiskPath(ws, "d1"), false))
	must(t, fill(filepath.Join(p.DiskPath(ws, "d1"), "upper/b"), 24*mib))
	must(t, p.SnapshotDisk(p.DiskPath(ws, "d1"), ws, p.DiskPath(ws, "d2"), false))
	must(t, p.DeleteSubvolume(p.DiskPath(ws, "d0")))
	must(t, p.Sync(""))
	if used := must1(p.DiskBytes(ws))(t); used < 48*mib || used > 52*mib {
		t.Errorf("48 MiB in two links of the chain are counted as %d bytes", used)
	}
	if err := fill(filepath.Join(p.DiskPath(ws, "d2"), "upper/c"), 24*mib); !errors.Is(err, unix.EDQUOT) {
		t.Errorf("72 of 64 MiB: %v", err)
	}
	must(t, os.Remove(filepath.Join(p.DiskPath(ws, "d2"), "upper/c")))
	must(t, p.setLimit(p.WorkspaceDir(ws), 128*mib))
	must(t, fill(filepath.Join(p.DiskPath(ws, "d2"), "upper/c"), 24*mib))
}

func TestASnapshotIntoAnotherWorkspaceCountsThereOnlyForWhatItWrites(t *testing.T) {
	p, _ := openTestPool(t)
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.EnsureWorkspace(ws2, 1))
	must(t, p.setLimit(p.WorkspaceDir(ws2), 16*mib))
	must(t, p.CreateDisk(ws, "d0"))
	must(t, fill(filepath.Join(p.DiskPath(ws, "d0"), "upper/a"), 32*mib))
	must(t, p.SnapshotDisk(p.DiskPath(ws, "d0"), ws2, p.DiskPath(ws2, "d0"), false))
	must(t, fill(filepath.Join(p.DiskPath(ws2, "d0"), "upper/b"), 8*mib))
	if err := fill(filepath.Join(p.DiskPath(ws2, "d0"), "upper/c"), 12*mib); !errors.Is(err, unix.EDQUOT) {
		t.Errorf("20 of 16 MiB: %v", err)
	}
	must(t, p.DeleteWorkspace(ws))
	if size := must1(os.Stat(filepath.Join(p.DiskPath(ws2, "d0"), "upper/a")))(t).Size(); size != 32*mib {
		t.Errorf("the fork lost data with its source: %d bytes", size)
	}
}

func TestAReadOnlySnapshotRefusesWritesAndCanBeDeleted(t *testing.T) {
	p, _ := openTestPool(t)
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.CreateDisk(ws, "d0"))
	must(t, os.Mkdir(p.CheckpointDir(ws, "c1"), 0o700))
	captured := filepath.Join(p.CheckpointDir(ws, "c1"), "disk")
	must(t, p.SnapshotDisk(p.DiskPath(ws, "d0"), ws, captured, true))
	if err := os.WriteFile(filepath.Join(captured, "upper/x"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("write to a read-only snapshot: %v", err)
	}
	if err := p.SnapshotDisk(p.DiskPath(ws, "d0"), ws, captured, true); !errors.Is(err, unix.EEXIST) {
		t.Errorf("the same snapshot again: %v", err)
	}
	must(t, p.DeleteSubvolume(captured))
	must(t, p.DeleteSubvolume(captured))
	if _, err := os.Stat(captured); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the delete: %v", err)
	}
}

func TestAWorkspaceGoesWholeAndADeleteThatWasCutShortIsFinished(t *testing.T) {
	p, _ := openTestPool(t)
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.CreateDisk(ws, "d0"))
	must(t, os.MkdirAll(filepath.Join(p.CheckpointDir(ws, "c1"), "image"), 0o700))
	must(t, os.WriteFile(filepath.Join(p.CheckpointDir(ws, "c1"), "image/pages.img"), []byte("x"), 0o600))
	must(t, p.SnapshotDisk(p.DiskPath(ws, "d0"), ws, filepath.Join(p.CheckpointDir(ws, "c1"), "disk"), true))
	must(t, os.Rename(p.WorkspaceDir(ws), filepath.Join(p.trash(), "grave")))
	must(t, p.destroy(filepath.Join(p.trash(), "grave/disks/d0")))
	must(t, p.EnsureWorkspace(ws2, 1))
	group := must1(p.groupID(ws2))(t)
	parent := must1(p.openBelow(filepath.Join(p.WorkspaceDir(ws2), "disks")))(t)
	must(t, p.fillDisk(parent, ".new-HALF", group))
	parent.Close()

	must(t, errors.Join(p.DropHalfMade(context.Background()), p.EmptyTrash(context.Background())))
	for _, dir := range []string{p.trash(), filepath.Join(p.WorkspaceDir(ws2), "disks")} {
		if left := must1(os.ReadDir(dir))(t); len(left) != 0 {
			t.Errorf("%s still holds %v", dir, left)
		}
	}
	if left := must1(p.ListWorkspaces())(t); len(left) != 1 || left[0] != ws2 {
		t.Errorf("workspaces %v", left)
	}
	must(t, p.DeleteWorkspace(ws2))
	must(t, p.DeleteWorkspace(ws2))
}

func TestQuotaGroupsOfDeletedWorkspacesGoInTheEnd(t *testing.T) {
	p, _ := openTestPool(t)
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.EnsureWorkspace(ws2, 1))
	must(t, p.CreateDisk(ws, "d0"))
	must(t, fill(filepath.Join(p.DiskPath(ws, "d0"), "upper/a"), 4*mib))
	must(t, p.DeleteWorkspace(ws))
	groups := func() []string { return must1(filepath.Glob(p.groupsDir("1_*")))(t) }
	for deadline := time.Now().Add(testns.Patience(2 * time.Minute)); len(groups()) > 1 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		must(t, ioctl(p.root, iocSync, nil)) // wakes the kernel's cleaner, which has no event to wait for
		must(t, p.EmptyTrash(context.Background()))
	}
	if own := must1(p.groupID(ws2))(t); len(groups()) != 1 || filepath.Base(groups()[0]) != groupName(own) {
		t.Fatalf("groups left: %v", groups())
	}
}

const iocSync = 0x9408 // _IO 8

func TestTheReserveIsKeptFromNewDisksButNotFromSuspendsAndDeletes(t *testing.T) {
	p, _ := openTestPool(t)
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.EnsureWorkspace(ws2, 1))
	must(t, p.CreateDisk(ws, "d0"))
	_, free, _, err := p.Usage()
	must(t, err)
	p.config.ReserveBytes = free + mib
	if err := p.CreateDisk(ws, "d1"); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a new disk out of the reserve: %v", err)
	}
	if err := p.SnapshotDisk(p.DiskPath(ws, "d0"), ws2, p.DiskPath(ws2, "d0"), false); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a fork out of the reserve: %v", err)
	}
	must(t, p.SnapshotDisk(p.DiskPath(ws, "d0"), ws, p.DiskPath(ws, "d1"), false))
	must(t, p.DeleteSubvolume(p.DiskPath(ws, "d1")))
	must(t, p.DeleteWorkspace(ws))
}

func TestNoNameAndNoLinkLeadsOutOfThePool(t *testing.T) {
	p, c := openTestPool(t)
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.CreateDisk(ws, "d0"))
	outside := t.TempDir()
	must(t, os.Symlink(outside, filepath.Join(p.DiskPath(ws, "d0"), "upper/link")))
	bad := []string{"", ".", "..", "../x", "a/b", "A", "a b", ".hidden", "a\x00b", strings.Repeat("a", 129)}
	for _, name := range bad {
		if p.EnsureWorkspace(name, 1) == nil || p.CreateDisk(ws, name) == nil || p.DeleteWorkspace(name) == nil {
			t.Errorf("name %q was accepted", name)
		}
		if path := p.DiskPath(name, name); !strings.HasPrefix(path, c.Mount+"/ws/.invalid/") {
			t.Errorf("name %q leads to %s", name, path)
		}
	}
	for _, path := range []string{outside, c.Mount, p.WorkspaceDir(ws), p.DiskPath(ws, "d0") + "/../../../../x", p.DiskPath(ws, "d0") + "/upper/link/x"} {
		if err := p.DeleteSubvolume(path); err == nil {
			t.Errorf("delete of %s was accepted", path)
		}
		if err := p.SnapshotDisk(p.DiskPath(ws, "d0"), ws, path, false); err == nil {
			t.Errorf("snapshot to %s was accepted", path)
		}
	}
	if left := must1(os.ReadDir(outside))(t); len(left) != 0 {
		t.Errorf("outside: %v", left)
	}
}

func TestACloneSharesBlocksAndRefusesToOverwrite(t *testing.T) {
	p, _ := openTestPool(t)
	must(t, p.EnsureWorkspace(ws, 1))
	dir := p.WorkspaceDir(ws)
	must(t, fill(filepath.Join(dir, "src"), 8*mib))
	must(t, CloneFile(filepath.Join(dir, "dst"), filepath.Join(dir, "src")))
	a, b := must1(os.ReadFile(filepath.Join(dir, "src")))(t), must1(os.ReadFile(filepath.Join(dir, "dst")))(t)
	if !bytes.Equal(a, b) || len(a) != 8*mib {
		t.Errorf("the clone differs (%d and %d bytes)", len(a), len(b))
	}
	if err := CloneFile(filepath.Join(dir, "dst"), filepath.Join(dir, "src")); !errors.Is(err, os.ErrExist) {
		t.Errorf("clone over a file: %v", err)
	}
	must(t, FlushFile(filepath.Join(dir, "dst")))
	must(t, SyncDir(dir))
}
