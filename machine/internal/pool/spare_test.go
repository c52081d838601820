package pool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestASpareBecomesAWorkspaceWithItsOwnLimit(t *testing.T) {
	p, c := openTestPool(t)
	must(t, p.CreateSpare("5a5e01"))
	disk := p.SpareDisk("5a5e01")
	must(t, os.WriteFile(filepath.Join(disk, "upper/early"), []byte("kept"), 0o600))
	open := must1(os.Create(filepath.Join(disk, "upper/open")))(t)
	defer open.Close()
	must(t, p.TakeSpare("5a5e01", ws, "e1.1", 1))
	if disks := must1(p.ListDisks(ws))(t); len(disks) != 1 || disks[0] != "e1.1" {
		t.Fatalf("disks %v", disks)
	}
	if spares := must1(p.ListSpares())(t); len(spares) != 0 || !p.HasWorkspace(ws) {
		t.Fatalf("spares %v", spares)
	}
	text := must1(os.ReadFile(filepath.Join(p.DiskPath(ws, "e1.1"), "upper/early")))(t)
	if _, err := open.Write([]byte("goes on")); err != nil || string(text) != "kept" {
		t.Fatalf("%q, %v", text, err)
	}
	must(t, fill(filepath.Join(p.DiskPath(ws, "e1.1"), "upper/big"), 200*mib))
	must(t, p.Sync("")) // the kernel counts committed data
	if bytes := must1(p.DiskBytes(ws))(t); bytes < 200*mib || bytes > 220*mib {
		t.Fatalf("%d bytes count", bytes)
	}
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.CreateDisk(ws, "e2.2"))
	must(t, p.SnapshotDisk(p.DiskPath(ws, "e1.1"), ws, p.DiskPath(ws, "e3.3"), false))
	must(t, p.DeleteWorkspace(ws))
	must(t, p.EmptyTrash(context.Background()))
	p.WaitDurable()
	p.root.Close()
	again := must1(Open(context.Background(), c))(t)
	defer again.root.Close()
	if left := must1(again.ListWorkspaces())(t); len(left) != 0 {
		t.Fatalf("left: %v", left)
	}
}

func TestAWorkspaceThatIsThereTakesNoSpare(t *testing.T) {
	p, _ := openTestPool(t)
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.CreateDisk(ws, "d1"))
	must(t, p.CreateSpare("5a5e02"))
	if err := p.TakeSpare("5a5e02", ws, "e1.1", 1); !errors.Is(err, os.ErrExist) {
		t.Fatalf("error %v", err)
	}
	if disks := must1(p.ListDisks(ws))(t); len(disks) != 1 || disks[0] != "d1" {
		t.Fatalf("disks %v", disks)
	}
	// A partly taken spare can be deleted.
	must(t, p.CreateSpare("5a5e03"))
	must(t, p.DeleteSpare(context.Background(), "5a5e02"))
	must(t, p.DeleteSpare(context.Background(), "5a5e02"))
	must(t, p.EmptyTrash(context.Background()))
	must(t, p.EmptyTrash(context.Background()))
	must(t, p.TakeSpare("5a5e03", ws2, "e1.1", 1))
	if _, err := p.DiskBytes(ws2); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "../ws", ".new-x", "a/b"} {
		if err := p.CreateSpare(name); !errors.Is(err, unix.EINVAL) {
			t.Errorf("a spare named %q: %v", name, err)
		}
	}
}

func TestAPoolWithNothingButItsReserveMakesAndGivesNoSpare(t *testing.T) {
	p, _ := openTestPool(t)
	must(t, p.CreateSpare("5a5e04"))
	p.config.ReserveBytes = 1 << 40
	if err := p.CreateSpare("5a5e05"); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("making one: %v", err)
	}
	if err := p.TakeSpare("5a5e04", ws, "e1.1", 1); !errors.Is(err, unix.ENOSPC) || p.HasWorkspace(ws) {
		t.Fatalf("taking one: %v", err)
	}
}
