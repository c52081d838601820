package pool

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// All subvolumes of a workspace are in one level-1 quota group, which has the limit. Shared data is charged to the
// subvolume that wrote it, so limits on single disks would not add up.
const (
	groupLevel   = uint64(1) << 48
	topSubvolume = 5
)

// Simple quotas (Linux 6.7) are preferred: they are exact and need no bookkeeping of shared extents.
func (p *Pool) enableQuotas() error {
	if mode := p.quotaMode(); mode != "" {
		p.simple = mode == "squota"
		return nil
	}
	if err := quotaCtl(p.root, quotaEnableSimple); err == nil {
		p.simple = true
		return nil
	}
	slog.Warn("the kernel has no simple quotas (Linux 6.7): classic quota groups are used", "pool", p.config.Mount)
	if err := quotaCtl(p.root, quotaEnable); err != nil {
		return fmt.Errorf("enable quotas: %w", err)
	}
	return nil
}

// quotaMode is "squota", "qgroup", or "" (off). A kernel that does not report the mode has only classic quotas,
// "qgroup".
func (p *Pool) quotaMode() string {
	text, err := os.ReadFile(p.groupsDir("mode"))
	if err == nil {
		return strings.TrimSpace(string(text))
	}
	if _, err := os.Stat(p.groupsDir("")); err == nil {
		return "qgroup"
	}
	return ""
}

func (p *Pool) groupsDir(name string) string {
	return filepath.Join("/sys/fs/btrfs", p.fsid, "qgroups", name)
}

// setLimit writes the group's id to disk before it creates the group. So a crash leaves no group that no file names.
func (p *Pool) setLimit(workspaceDir string, bytes uint64) error {
	group, err := ensureGroupID(workspaceDir)
	if err != nil {
		return err
	}
	if err := createGroup(p.root, group); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("create the quota group of %s: %w", workspaceDir, err)
	}
	if err := limitGroup(p.root, group, bytes); err != nil {
		return fmt.Errorf("limit the quota group of %s: %w", workspaceDir, err)
	}
	return nil
}

func limitOf(quotaGiB int) (bytes uint64, err error) {
	if quotaGiB < 1 {
		return 0, fmt.Errorf("a disk of %d GiB: %w", quotaGiB, unix.EINVAL)
	}
	return uint64(quotaGiB) << 30, nil
}

func ensureGroupID(workspaceDir string) (uint64, error) {
	group, err := readGroupID(workspaceDir)
	if !errors.Is(err, os.ErrNotExist) {
		return group, err
	}
	var random [8]byte
	rand.Read(random[:])
	group = groupLevel | binary.LittleEndian.Uint64(random[:])>>17 // 47 random bits, so that collisions are unlikely
	path := quotaFile(workspaceDir)
	fresh := filepath.Join(filepath.Dir(path), ".quota")
	if err := os.WriteFile(fresh, []byte(strconv.FormatUint(group, 10)+"\n"), 0o600); err != nil {
		return 0, err
	}
	if err := FlushFile(fresh); err != nil {
		return 0, err
	}
	return group, os.Rename(fresh, path)
}

func (p *Pool) groupID(workspace string) (uint64, error) {
	return readGroupID(p.WorkspaceDir(workspace))
}

func readGroupID(dir string) (uint64, error) {
	text, err := os.ReadFile(quotaFile(dir))
	if err != nil {
		return 0, err
	}
	group, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || group>>48 != 1 {
		return 0, fmt.Errorf("%s does not hold a level-1 group: %q", quotaFile(dir), text)
	}
	return group, nil
}

func quotaFile(dir string) string { return filepath.Join(dir, "quota") }

// DiskBytes returns the bytes that are charged to the workspace's limit.
func (p *Pool) DiskBytes(workspace string) (int64, error) {
	if err := checkName("workspace", workspace); err != nil {
		return 0, err
	}
	group, err := p.groupID(workspace)
	if err != nil {
		return 0, err
	}
	bytes := p.referenced(group)
	if bytes < 0 {
		return 0, fmt.Errorf("the kernel does not tell the usage of the quota group of %s", workspace)
	}
	return bytes, nil
}

func groupName(group uint64) string { return fmt.Sprintf("%d_%d", group>>48, group&(groupLevel-1)) }

// sweepGroups removes the groups of deleted subvolumes, then those of deleted workspaces. The kernel refuses a group
// with members or charged data; the next sweep tries again.
func (p *Pool) sweepGroups() error {
	p.sweeping.Lock()
	defer p.sweeping.Unlock()
	entries, err := os.ReadDir(p.groupsDir(""))
	if err != nil {
		return err
	}
	used, err := p.usedGroups()
	if err != nil {
		return err
	}
	p.orphans, p.orphansBefore = map[uint64]bool{}, p.orphans
	for _, level := range []uint64{0, 1} {
		for _, entry := range entries {
			group, ok := parseGroupName(entry.Name())
			if !ok || group>>48 != level || used[group] {
				continue
			}
			if err := p.sweepGroup(group); err != nil {
				return fmt.Errorf("remove quota group %s: %w", entry.Name(), err)
			}
		}
	}
	return nil
}

func (p *Pool) sweepGroup(group uint64) error {
	if group>>48 == 0 {
		if orphan, err := p.isOrphan(group); err != nil || !orphan {
			return err
		}
	}
	err := removeGroup(p.root, group)
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// isOrphan checks that the group's subvolume is gone, because some kernels remove the group of an existing subvolume.
// It requires two sweeps in a row, because a group is made before its subvolume.
func (p *Pool) isOrphan(group uint64) (bool, error) {
	if group <= topSubvolume || p.referenced(group) != 0 {
		return false, nil
	}
	if exists, err := subvolumeExists(p.root, group); err != nil || exists {
		return false, err
	}
	p.orphans[group] = true
	return p.orphansBefore[group], nil
}

// referenced returns the charged bytes, or -1 if the kernel does not report them.
func (p *Pool) referenced(group uint64) int64 { return p.counter(group, "referenced") }

func (p *Pool) counter(group uint64, name string) int64 {
	text, err := os.ReadFile(filepath.Join(p.groupsDir(groupName(group)), name))
	if err != nil {
		return -1
	}
	bytes, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return -1
	}
	return int64(min(bytes, math.MaxInt64))
}

func parseGroupName(name string) (uint64, bool) {
	var level, id uint64
	_, err := fmt.Sscanf(name, "%d_%d", &level, &id)
	return level<<48 | id, err == nil
}

func (p *Pool) usedGroups() (map[uint64]bool, error) {
	// Spares are listed before workspaces. So a spare that becomes a workspace in between is found in one of the lists.
	spares, err := p.ListSpares()
	if err != nil {
		return nil, err
	}
	workspaces, err := p.ListWorkspaces()
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, spare := range spares {
		dirs = append(dirs, p.spareDir(spare))
	}
	for _, workspace := range workspaces {
		dirs = append(dirs, p.WorkspaceDir(workspace))
	}
	volumes, err := p.ListVolumes()
	if err != nil {
		return nil, err
	}
	for _, volume := range volumes {
		dirs = append(dirs, p.volumeDir(volume))
	}
	used := map[uint64]bool{}
	for _, dir := range dirs {
		group, err := readGroupID(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		used[group] = true
	}
	return used, nil
}
