package pool

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A workspace may have quotaGiB of files on its current disk. A quota group counts the data that its subvolumes wrote,
// while any subvolume refers to it. So it includes data of checkpoints and forks, but no data shared with a fork's
// source. So the kernel's limit is the counted bytes plus the disk's remaining capacity.

// keptMax bounds the data of checkpoints that is not on the disk, in multiples of the quota. Without it, a few
// snapshots between full rewrites would fill the pool.
const keptMax = 1

// assemblySlack is space for writes before a guest runs: an overlay's directories and the incarnation.
const assemblySlack = 64 << 20

// EnsureWorkspace makes a workspace's directory and sets its limit, if it has none.
func (p *Pool) EnsureWorkspace(workspace string, quotaGiB int) error {
	limit, err := limitOf(quotaGiB)
	if err != nil {
		return err
	}
	dir, group, err := p.ensureWorkspace(workspace)
	if err != nil || p.limited(group) > 0 {
		return err
	}
	return p.setLimit(dir, limit)
}

// AssembleWorkspace raises the limit until SetCapacity, for the time before the guest runs. On a full disk an overlay
// cannot make its work directory, and the kernel silently mounts it read-only.
func (p *Pool) AssembleWorkspace(workspace string, quotaGiB int) error {
	limit, err := limitOf(quotaGiB)
	if err != nil {
		return err
	}
	dir, group, err := p.ensureWorkspace(workspace)
	if err != nil {
		return err
	}
	return p.setLimit(dir, max(limit, uint64(max(p.referenced(group), 0)))+assemblySlack)
}

func (p *Pool) ensureWorkspace(workspace string) (dir string, group uint64, err error) {
	if err := checkName("workspace", workspace); err != nil {
		return "", 0, err
	}
	dir = p.WorkspaceDir(workspace)
	if err := makeDirs(dir); err != nil {
		return "", 0, err
	}
	group, err = ensureGroupID(dir)
	return dir, group, err
}

// DiskCapacity is in bytes, as of the kernel's last commit. Limit may be below Used.
type DiskCapacity struct{ Used, Limit int64 }

func (r DiskCapacity) Left() int64 { return max(r.Limit-r.Used, 0) }

// CapacityFor computes a limit, but does not set it. diskBytes is the result of ReferencedBytes.
func (p *Pool) CapacityFor(workspace string, quotaGiB int, diskBytes int64) (DiskCapacity, error) {
	quota, err := limitOf(quotaGiB)
	if err != nil {
		return DiskCapacity{}, err
	}
	used, err := p.DiskBytes(workspace)
	if err != nil {
		return DiskCapacity{}, err
	}
	room := DiskCapacity{Used: used, Limit: used + max(int64(quota)-diskBytes, 0)}
	if used-diskBytes <= keptMax*int64(quota) {
		return room, nil
	}
	// Data that only forks refer to, or that is being deleted, is not counted.
	own, err := p.heldBytes(workspace)
	if err != nil {
		return DiskCapacity{}, err
	}
	room.Limit = min(room.Limit, (1+keptMax)*int64(quota)+max(used-own, 0))
	return room, nil
}

// SetCapacity sets the capacity's Limit as the kernel's limit.
func (p *Pool) SetCapacity(workspace string, room DiskCapacity) error {
	if err := checkName("workspace", workspace); err != nil {
		return err
	}
	return p.setLimit(p.WorkspaceDir(workspace), uint64(max(room.Limit, 1)))
}

// CapacityOf reads the kernel's counted bytes and limit.
func (p *Pool) CapacityOf(workspace string) (DiskCapacity, error) {
	used, err := p.DiskBytes(workspace)
	if err != nil {
		return DiskCapacity{}, err
	}
	group, err := p.groupID(workspace)
	return DiskCapacity{Used: used, Limit: p.limited(group)}, err
}

// limited returns the group's limit, or 0 if the kernel reports none.
func (p *Pool) limited(group uint64) int64 { return max(p.counter(group, "max_referenced"), 0) }

// Change is what the kernel has accepted since the last commit, and so has not counted.
type Change struct {
	DataBytes int64 // written by programs
	Any       bool  // files were made, deleted or written to
}

// ChangeOf reads the change of a workspace. It is zero if the kernel does not report its reservations.
func (p *Pool) ChangeOf(workspace string) (Change, error) {
	group, err := p.groupID(workspace)
	if err != nil {
		return Change{}, err
	}
	data, nodes := p.counter(group, "rsv_data"), p.counter(group, "rsv_meta_pertrans")
	return Change{DataBytes: max(data, 0), Any: data > 0 || nodes > 0}, nil
}

// CountersOf returns the sysfs directory of the quota group of a disk's workspace, or "".
func (p *Pool) CountersOf(disk string) string {
	group, err := readGroupID(filepath.Dir(filepath.Dir(disk)))
	if err != nil {
		return ""
	}
	dir := p.groupsDir(groupName(group))
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}

func (p *Pool) heldBytes(workspace string) (int64, error) {
	held := &extents{seen: map[uint64]bool{}}
	for _, pattern := range []string{"disks/*", "checkpoints/*/*"} {
		paths, err := filepath.Glob(filepath.Join(p.WorkspaceDir(workspace), pattern))
		if err != nil {
			return 0, err
		}
		for _, path := range paths {
			if err := p.addExtents(path, held); err != nil {
				return 0, err
			}
		}
	}
	return held.bytes, nil
}

// addExtents ignores a path that is no subvolume, or was just deleted.
func (p *Pool) addExtents(path string, to *extents) error {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil || stat.Ino != subvolInode || stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	disk, err := p.openSubvolume(path)
	if err != nil {
		return nil
	}
	defer disk.Close()
	return eachExtent(disk, to.add)
}
