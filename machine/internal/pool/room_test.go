package pool

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

const gib = 1 << 30

func roomFor(t *testing.T, p *Pool, workspace, disk string) DiskCapacity {
	t.Helper()
	_, refers := settled(t, p, workspace, disk)
	return must1(p.CapacityFor(workspace, 1, refers))(t)
}

func about(got, want int64) bool { return got > want-mib && got < want+mib }

func TestFilesThatOnlyACheckpointHoldsTakeNoRoomOfTheDisk(t *testing.T) {
	p, _ := openTestPool(t)
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.CreateDisk(ws, "d0"))
	big := filepath.Join(p.DiskPath(ws, "d0"), "upper/big")
	must(t, fill(big, 64*mib))
	if room := roomFor(t, p, ws, "d0"); !about(room.Left(), gib-64*mib) || !about(room.Limit, gib) {
		t.Fatalf("before: %+v", room)
	}
	must(t, p.SnapshotDisk(p.DiskPath(ws, "d0"), ws, p.DiskPath(ws, "kept"), true))
	must(t, os.Remove(big))
	room := roomFor(t, p, ws, "d0")
	if !about(room.Left(), gib) || !about(room.Limit, gib+64*mib) {
		t.Fatalf("after the delete: %+v", room)
	}
	must(t, p.SetCapacity(ws, room))
	if kernel := must1(p.CapacityOf(ws))(t); kernel != room {
		t.Errorf("the kernel has %+v, not %+v", kernel, room)
	}
	must(t, p.EnsureWorkspace(ws, 1))
	if kernel := must1(p.CapacityOf(ws))(t); kernel != room {
		t.Errorf("EnsureWorkspace left %+v", kernel)
	}
	must(t, p.SetCapacity(ws, DiskCapacity{Limit: room.Used + 16*mib}))
	must(t, fill(filepath.Join(p.DiskPath(ws, "d0"), "upper/new"), 12*mib))
	if err := fill(filepath.Join(p.DiskPath(ws, "d0"), "upper/more"), 8*mib); !errors.Is(err, unix.EDQUOT) {
		t.Errorf("20 of 16 MiB: %v", err)
	}
}

func TestAForkPaysForWhatItSharesAndItsSourceNotForWhatOnlyTheForkHolds(t *testing.T) {
	p, _ := openTestPool(t)
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.EnsureWorkspace(ws2, 1))
	must(t, p.CreateDisk(ws, "d0"))
	big := filepath.Join(p.DiskPath(ws, "d0"), "upper/big")
	must(t, fill(big, 64*mib))
	must(t, p.SnapshotDisk(p.DiskPath(ws, "d0"), ws2, p.DiskPath(ws2, "d0"), false))
	if room := roomFor(t, p, ws2, "d0"); !about(room.Left(), gib-64*mib) || room.Used > mib {
		t.Errorf("the fork: %+v", room)
	}
	if room := roomFor(t, p, ws, "d0"); !about(room.Left(), gib-64*mib) {
		t.Errorf("the source: %+v", room)
	}
	must(t, os.Remove(big))
	if room := roomFor(t, p, ws, "d0"); !about(room.Left(), gib) || !about(room.Used, 64*mib) {
		t.Errorf("the source without the file: %+v", room)
	}
}

func TestWhatOwnCheckpointsKeepIsBoundedAndWhatForksHoldIsNot(t *testing.T) {
	p, _ := openTestPool(t, func(c *Config) { c.SizeBytes = 5 << 30 })
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.AssembleWorkspace(ws, 4))
	must(t, p.CreateDisk(ws, "d0"))
	big := filepath.Join(p.DiskPath(ws, "d0"), "upper/big")
	for _, kept := range []string{"k1", "k2"} {
		must(t, fill(big, 600*mib))
		must(t, p.SnapshotDisk(p.DiskPath(ws, "d0"), ws, p.DiskPath(ws, kept), true))
		must(t, os.Remove(big))
	}
	if room := roomFor(t, p, ws, "d0"); !about(room.Left(), 2*gib-1200*mib) {
		t.Errorf("checkpoints keep 1200 MiB: %+v", room)
	}
	must(t, p.EnsureWorkspace(ws2, 1))
	must(t, p.SnapshotDisk(p.DiskPath(ws, "k1"), ws2, p.DiskPath(ws2, "d0"), false))
	must(t, p.DeleteSubvolume(p.DiskPath(ws, "k1")))
	if room := roomFor(t, p, ws, "d0"); !about(room.Left(), gib) {
		t.Errorf("a checkpoint keeps 600 MiB, and a fork as much: %+v", room)
	}
}

func TestAMachineIsMadeWhateverIsUsed(t *testing.T) {
	p, _ := openTestPool(t)
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.CreateDisk(ws, "d0"))
	must(t, fill(filepath.Join(p.DiskPath(ws, "d0"), "upper/big"), 32*mib))
	used, _ := settled(t, p, ws, "d0")
	must(t, p.SetCapacity(ws, DiskCapacity{Limit: used - 8*mib}))
	if err := p.CreateDisk(ws, "d1"); !errors.Is(err, unix.EDQUOT) {
		t.Fatalf("a disk on top of a full one: %v", err)
	}
	must(t, p.AssembleWorkspace(ws, 1))
	must(t, p.CreateDisk(ws, "d1"))
}
