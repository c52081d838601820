package pool

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A volume is the subvolume <mount>/volumes/<id>/data with its own limit. A directory without data is unfinished, and
// CreateVolume makes the volume again from the beginning.

func (p *Pool) volumes() string { return filepath.Join(p.config.Mount, "volumes") }

func (p *Pool) volumeDir(id string) string { return filepath.Join(p.volumes(), component(id)) }

// VolumePath is the directory that machines mount.
func (p *Pool) VolumePath(id string) string { return filepath.Join(p.volumeDir(id), "data") }

// HasVolume reports whether the volume exists and is complete.
func (p *Pool) HasVolume(id string) bool {
	var stat unix.Stat_t
	return unix.Lstat(p.VolumePath(id), &stat) == nil && stat.Ino == subvolInode
}

// CreateVolume makes a volume, or changes its limit, durably. ENOSPC (wrapped): only the reserve is left.
func (p *Pool) CreateVolume(id string, quotaGiB int) error {
	if err := checkName("volume", id); err != nil {
		return err
	}
	bytes, err := limitOf(quotaGiB)
	if err != nil {
		return err
	}
	if err := p.createVolume(id, bytes); err != nil {
		return fmt.Errorf("create volume %s: %w", id, err)
	}
	return nil
}

func (p *Pool) createVolume(id string, bytes uint64) error {
	dir := p.volumeDir(id)
	if !p.HasVolume(id) {
		if err := p.Admit(); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := p.setLimit(dir, bytes); err != nil {
		return err
	}
	if !p.HasVolume(id) {
		if err := p.makeVolume(dir); err != nil {
			return err
		}
	}
	return errors.Join(SyncDir(p.VolumePath(id)), SyncDir(dir), SyncDir(p.volumes()))
}

// makeVolume permits every user to write: access is controlled by which machines have the volume attached.
func (p *Pool) makeVolume(dir string) error {
	group, err := readGroupID(dir)
	if err != nil {
		return err
	}
	parent, err := p.openBelow(dir)
	if err != nil {
		return err
	}
	defer parent.Close()
	fresh := ".new-" + rand.Text()
	if err := createSubvolume(parent, nil, fresh, group, false); err != nil {
		return err
	}
	err = os.Chmod(filepath.Join(dir, fresh), 0o777)
	if err == nil {
		err = unix.Renameat2(int(parent.Fd()), fresh, int(parent.Fd()), "data", unix.RENAME_NOREPLACE)
	}
	if err != nil {
		_ = destroySubvolume(parent, fresh) // after a failure the next try, or the volume's deletion, removes it
	}
	return err
}

// DeleteVolume removes a volume, if it exists, in one durable step. Its data is deleted afterwards.
func (p *Pool) DeleteVolume(id string) error {
	if err := checkName("volume", id); err != nil {
		return err
	}
	return p.remove(p.volumeDir(id))
}

// ListVolumes lists all volumes, including unfinished ones.
func (p *Pool) ListVolumes() ([]string, error) { return listNames(p.volumes()) }

func (p *Pool) VolumeBytes(id string) (int64, error) {
	group, err := readGroupID(p.volumeDir(id))
	if err != nil {
		return 0, err
	}
	bytes := p.referenced(group)
	if bytes < 0 {
		return 0, fmt.Errorf("the kernel does not tell the usage of the quota group of volume %s", id)
	}
	return bytes, nil
}
