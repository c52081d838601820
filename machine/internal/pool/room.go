package pool

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A workspace may hold quotaGiB of files on the disk that it works on, whoever wrote them; that is what its users know of its size. The
// limit of a quota group counts something else: what the workspace's subvolumes wrote, for as long as anybody refers to it. What only
// checkpoints and forks still hold is in it, what the disk shares with the source of a fork is not. So the limit is set to what is
// counted, and what the disk may still grow by. It is the kernel that keeps it.

// keptMax bounds what a workspace's own checkpoints may keep beside the files of its disk, in disks of its size. Without a bound a few
// snapshots between which everything is written anew would fill the pool.
const keptMax = 1

// assemblySlack is for what the service itself writes to a disk before a guest runs on it: the directories of an overlay, who the machine is.
const assemblySlack = 64 << 20

// EnsureWorkspace makes the workspace's directory, and a limit where there is none yet: the one of a workspace that has no files.
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

// AssembleWorkspace is EnsureWorkspace with room for a machine that is being made, whatever is used: on a disk that the guest has filled an
// overlay has no place for its work directory, and the kernel mounts it read-only without a word. SetRoom takes the room back before the
// guest is handed over.
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

// Room is how far a workspace's limit is, in bytes. Used is what it counts, as of the kernel's last commit; Limit may be below it.
type Room struct{ Used, Limit int64 }

// Left is what may still be written.
func (r Room) Left() int64 { return max(r.Limit-r.Used, 0) }

// RoomFor is the room of a workspace whose disk refers to diskBytes (ReferencedBytes). No limit is set by it.
func (p *Pool) RoomFor(workspace string, quotaGiB int, diskBytes int64) (Room, error) {
	quota, err := limitOf(quotaGiB)
	if err != nil {
		return Room{}, err
	}
	used, err := p.DiskBytes(workspace)
	if err != nil {
		return Room{}, err
	}
	room := Room{Used: used, Limit: used + max(int64(quota)-diskBytes, 0)}
	if used-diskBytes <= keptMax*int64(quota) {
		return room, nil
	}
	// What only forks hold, and what is being deleted, is not the workspace's fault.
	own, err := p.heldBytes(workspace)
	if err != nil {
		return Room{}, err
	}
	room.Limit = min(room.Limit, (1+keptMax)*int64(quota)+max(used-own, 0))
	return room, nil
}

// SetRoom makes it the limit.
func (p *Pool) SetRoom(workspace string, room Room) error {
	if err := checkName("workspace", workspace); err != nil {
		return err
	}
	return p.setLimit(p.WorkspaceDir(workspace), uint64(max(room.Limit, 1)))
}

// RoomOf is the room as the kernel has it.
func (p *Pool) RoomOf(workspace string) (Room, error) {
	used, err := p.DiskBytes(workspace)
	if err != nil {
		return Room{}, err
	}
	group, err := p.groupID(workspace)
	return Room{Used: used, Limit: p.limited(group)}, err
}

// limited is 0 where the kernel has no limit, or does not tell.
func (p *Pool) limited(group uint64) int64 { return max(p.counter(group, "max_referenced"), 0) }

// Change is what happens to a workspace's disks that no commit has counted yet.
type Change struct {
	DataBytes int64 // written by programs
	Any       bool  // files came or went, or were written to
}

// ChangeOf is what the kernel has set aside for a workspace since its last commit: nothing, where it does not tell.
func (p *Pool) ChangeOf(workspace string) (Change, error) {
	group, err := p.groupID(workspace)
	if err != nil {
		return Change{}, err
	}
	data, nodes := p.counter(group, "rsv_data"), p.counter(group, "rsv_meta_pertrans")
	return Change{DataBytes: max(data, 0), Any: data > 0 || nodes > 0}, nil
}

// CountersOf is the directory in which the kernel shows limit and counters of the group that a disk is in; "" where it does not.
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

// heldBytes is the data that all disks and checkpoints of a workspace hold together.
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

// addExtents leaves out what is no subvolume, and what is deleted meanwhile.
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
