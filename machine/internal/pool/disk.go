package pool

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func makeDirs(workspaceDir string) error {
	for _, path := range []string{workspaceDir, filepath.Join(workspaceDir, "disks"), filepath.Join(workspaceDir, "checkpoints")} {
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// CreateDisk makes a blank disk, and names it when it is complete. The disk becomes durable later (WaitDurable), so
// that an open does not wait for the drive. ENOSPC (wrapped): only the reserve is left.
func (p *Pool) CreateDisk(workspace, name string) error {
	if err := errors.Join(checkName("workspace", workspace), checkName("disk", name)); err != nil {
		return err
	}
	if err := p.createDisk(p.WorkspaceDir(workspace), name); err != nil {
		return fmt.Errorf("create disk %s of %s: %w", name, workspace, err)
	}
	p.behind.requestCommit()
	return nil
}

func (p *Pool) createDisk(workspaceDir, name string) error {
	if err := p.Admit(); err != nil {
		return err
	}
	group, err := readGroupID(workspaceDir)
	if err != nil {
		return err
	}
	parent, err := p.openBelow(filepath.Join(workspaceDir, "disks"))
	if err != nil {
		return err
	}
	defer parent.Close()
	fresh := ".new-" + rand.Text()
	err = p.fillDisk(parent, fresh, group)
	if err == nil {
		err = unix.Renameat2(int(parent.Fd()), fresh, int(parent.Fd()), name, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		_ = destroySubvolume(parent, fresh) // if this fails, DropHalfMade removes it
	}
	return err
}

func (p *Pool) fillDisk(parent *os.File, name string, group uint64) error {
	if err := createSubvolume(parent, nil, name, group, false); err != nil {
		return err
	}
	dir := filepath.Join(parent.Name(), name)
	for sub, mode := range map[string]os.FileMode{"upper": 0o755, "work": 0o700, "state": 0o700} {
		path := filepath.Join(dir, sub)
		if err := os.Mkdir(path, mode); err != nil {
			return err
		}
		if err := os.Chmod(path, mode); err != nil { // the umask may have cleared bits, and upper/ is the guest's root directory
			return err
		}
	}
	return nil
}

// SnapshotDisk takes constant time after btrfs has written all dirty data. So callers write that data before they pause
// the guest. dstPath's parent must exist. Only a snapshot within a workspace may use the reserve.
func (p *Pool) SnapshotDisk(srcPath, dstWorkspace, dstPath string, readonly bool) error {
	source, err := p.workspaceOf(srcPath)
	if err != nil {
		return err
	}
	target, err := p.workspaceOf(dstPath)
	if err != nil {
		return err
	}
	if target != dstWorkspace {
		return fmt.Errorf("%s is not in workspace %s: %w", dstPath, dstWorkspace, unix.EINVAL)
	}
	if source != target {
		if err := p.Admit(); err != nil {
			return err
		}
	}
	if err := p.snapshot(srcPath, target, dstPath, readonly); err != nil {
		return fmt.Errorf("snapshot %s to %s: %w", srcPath, dstPath, err)
	}
	return nil
}

func (p *Pool) snapshot(srcPath, workspace, dstPath string, readonly bool) error {
	group, err := p.groupID(workspace)
	if err != nil {
		return err
	}
	source, err := p.openSubvolume(srcPath)
	if err != nil {
		return err
	}
	defer source.Close()
	parent, err := p.openBelow(filepath.Dir(dstPath))
	if err != nil {
		return err
	}
	defer parent.Close()
	return createSubvolume(parent, source, filepath.Base(dstPath), group, readonly)
}

func (p *Pool) openSubvolume(path string) (*os.File, error) {
	file, err := p.openBelow(path)
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil || stat.Ino != subvolInode {
		file.Close()
		return nil, fmt.Errorf("%s is not a subvolume: %w", path, unix.EINVAL)
	}
	return file, nil
}

// ListWorkspaces, ListDisks and ListCheckpoints omit unfinished objects.
func (p *Pool) ListWorkspaces() ([]string, error) { return listNames(p.workspaces()) }

func (p *Pool) ListDisks(workspace string) ([]string, error) {
	return listNames(filepath.Join(p.WorkspaceDir(workspace), "disks"))
}

func (p *Pool) ListCheckpoints(workspace string) ([]string, error) {
	return listNames(filepath.Join(p.WorkspaceDir(workspace), "checkpoints"))
}

func listNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	names := []string{}
	for _, entry := range entries {
		if entry.IsDir() && namePattern.MatchString(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}
