package pool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

const vol = "0198c0de-0000-7000-8000-0000000000f1"

func TestAVolumeHoldsItsQuotaAndNoMoreAlsoAfterItWasMadeLarger(t *testing.T) {
	p, c := openTestPool(t, func(c *Config) { c.SizeBytes = 4 << 30 })
	must(t, p.CreateVolume(vol, 1))
	data := p.VolumePath(vol)
	if stat, err := os.Stat(data); err != nil || stat.Mode().Perm() != 0o777 || !p.HasVolume(vol) {
		t.Fatalf("%v, %v", stat, err)
	}
	must(t, fill(filepath.Join(data, "half"), 512*mib))
	if err := fill(filepath.Join(data, "more"), 600*mib); !errors.Is(err, unix.EDQUOT) {
		t.Errorf("past the quota: %v", err)
	}
	if bytes, err := p.VolumeBytes(vol); err != nil || bytes < 512*mib || bytes > 1<<30 {
		t.Errorf("%d bytes, %v", bytes, err)
	}
	must(t, p.CreateVolume(vol, 2)) // sets the limit of an existing volume
	must(t, fill(filepath.Join(data, "more"), 600*mib))
	must(t, unix.Unmount(c.Mount, unix.MNT_DETACH))
	p = must1(Open(context.Background(), c))(t)
	if !p.HasVolume(vol) {
		t.Error("it is gone after a restart")
	}
	if err := fill(filepath.Join(data, "again"), 1000*mib); !errors.Is(err, unix.EDQUOT) {
		t.Errorf("past the quota after a restart: %v", err)
	}
}

func TestFilesWithoutContentUseTheQuotaTooAndAVolumeThatIsDeletedLeavesNothing(t *testing.T) {
	p, _ := openTestPool(t)
	must(t, p.CreateVolume(vol, 1))
	before := must1(p.VolumeBytes(vol))(t)
	for i := range 2000 {
		must(t, os.WriteFile(filepath.Join(p.VolumePath(vol), string(rune('a'+i%26))+string(rune('0'+i/26))), nil, 0o600))
	}
	must(t, p.Commit())
	if after := must1(p.VolumeBytes(vol))(t); after <= before {
		t.Errorf("2,000 inodes are charged with %d bytes", after-before)
	}
	must(t, p.DeleteVolume(vol))
	must(t, p.DeleteVolume(vol))
	if ids, err := p.ListVolumes(); len(ids) != 0 || p.HasVolume(vol) || err != nil {
		t.Errorf("left: %v, %v", ids, err)
	}
	if _, err := p.VolumeBytes(vol); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its size: %v", err)
	}
}

func TestSinceWhenAVolumeIsKeptStaysAsItWasFirstSaid(t *testing.T) {
	p, _ := openTestPool(t)
	if err := p.KeepVolume(vol, "2031-01-01T00:00:00Z"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of none: %v", err)
	}
	if err := p.KeepVolume(vol, ""); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of none: %v", err)
	}
	must(t, p.CreateVolume(vol, 1))
	must(t, p.KeepVolume(vol, "2031-01-01T00:00:00Z"))
	must(t, p.KeepVolume(vol, "2032-01-01T00:00:00Z"))
	if since, err := p.VolumeKeptSince(vol); since != "2031-01-01T00:00:00Z" || err != nil {
		t.Errorf("%q, %v", since, err)
	}
	if entries := must1(os.ReadDir(p.volumeDir(vol)))(t); slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name()[0] == '.' }) {
		t.Errorf("left: %v", entries)
	}
	must(t, p.KeepVolume(vol, ""))
	must(t, p.KeepVolume(vol, ""))
	if since, err := p.VolumeKeptSince(vol); since != "" || err != nil {
		t.Errorf("%q, %v", since, err)
	}
	must(t, p.DeleteVolume(vol))
}
