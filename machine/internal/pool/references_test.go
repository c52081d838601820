package pool

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func settled(t *testing.T, p *Pool, workspace, disk string) (used, refers int64) {
	t.Helper()
	must(t, p.Sync(""))
	must(t, p.Commit())
	return must1(p.DiskBytes(workspace))(t), must1(p.ReferencedBytes(p.DiskPath(workspace, disk)))(t)
}

func TestADiskThatSharesNothingRefersToWhatItIsChargedFor(t *testing.T) {
	p, _ := openTestPool(t)
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.CreateDisk(ws, "d0"))
	upper := filepath.Join(p.DiskPath(ws, "d0"), "upper")
	must(t, fill(filepath.Join(upper, "big"), 32*mib))
	for i := range 3000 { // the smallest are stored inline in tree nodes
		must(t, os.WriteFile(filepath.Join(upper, fmt.Sprint("small", i)), make([]byte, 1+i*3), 0o600))
	}
	if used, refers := settled(t, p, ws, "d0"); used != refers || used < 32*mib {
		t.Errorf("charged %d, referred to %d", used, refers)
	}
	file := must1(os.OpenFile(filepath.Join(upper, "big"), os.O_WRONLY, 0))(t)
	defer file.Close()
	for _, at := range []int64{mib, 3 * mib, 9 * mib} {
		must1(file.WriteAt(make([]byte, mib/2), at))(t)
		must(t, file.Sync())
	}
	if used, refers := settled(t, p, ws, "d0"); used != refers {
		t.Errorf("after a file was overwritten in parts: charged %d, referred to %d", used, refers)
	}
	must(t, unix.Ftruncate(int(file.Fd()), 1<<40))
	if used, refers := settled(t, p, ws, "d0"); used != refers || refers > 64*mib {
		t.Errorf("with a hole of a TiB: charged %d, referred to %d", used, refers)
	}
}

func TestWhatASnapshotAloneHoldsIsNotReferredToByTheDisk(t *testing.T) {
	p, _ := openTestPool(t)
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.CreateDisk(ws, "d0"))
	big := filepath.Join(p.DiskPath(ws, "d0"), "upper/big")
	must(t, fill(big, 32*mib))
	must(t, p.SnapshotDisk(p.DiskPath(ws, "d0"), ws, p.DiskPath(ws, "kept"), true))
	must(t, os.Remove(big))
	used, refers := settled(t, p, ws, "d0")
	if used < 32*mib || refers > mib {
		t.Errorf("charged %d, referred to %d", used, refers)
	}
	if kept := must1(p.ReferencedBytes(p.DiskPath(ws, "kept")))(t); kept < 32*mib || kept > 33*mib {
		t.Errorf("the snapshot refers to %d", kept)
	}
	if _, err := p.ReferencedBytes(p.DiskPath(ws, "none")); err == nil {
		t.Error("a disk that is not there was measured")
	}
}
