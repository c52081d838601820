package pool

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// DeleteSubvolume removes a disk, if it exists. The kernel releases the disk's space in the background.
func (p *Pool) DeleteSubvolume(path string) error {
	if _, err := p.workspaceOf(path); err != nil {
		return err
	}
	file, err := p.openSubvolume(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	file.Close()
	return p.destroy(path)
}

func (p *Pool) destroy(path string) error {
	parent, err := p.openBelow(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := destroySubvolume(parent, filepath.Base(path)); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("delete subvolume %s: %w", path, err)
	}
	return nil
}

// DeleteWorkspace removes the workspace, if any, in one durable step. EmptyTrash finishes interrupted deletions.
func (p *Pool) DeleteWorkspace(workspace string) error {
	if err := checkName("workspace", workspace); err != nil {
		return err
	}
	return p.remove(p.WorkspaceDir(workspace))
}

func (p *Pool) remove(dir string) error {
	name := strings.ToLower(rand.Text())
	p.startDeletion(name)
	defer p.letGo(name)
	grave := filepath.Join(p.trash(), name)
	err := os.Rename(dir, grave)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := errors.Join(SyncDir(p.trash()), SyncDir(filepath.Dir(dir))); err != nil {
		return err
	}
	return p.deleteFromTrash(context.Background(), grave)
}

// EmptyTrash finishes interrupted deletions and removes unused quota groups. It omits deletions that are running, and
// one failure does not stop the others.
func (p *Pool) EmptyTrash(ctx context.Context) error {
	entries, err := os.ReadDir(p.trash())
	for _, entry := range entries {
		err = errors.Join(err, p.finish(ctx, entry.Name()))
	}
	return errors.Join(err, p.sweepGroups())
}

func (p *Pool) finish(ctx context.Context, grave string) error {
	if !p.startDeletion(grave) {
		return nil
	}
	defer p.letGo(grave)
	return p.deleteFromTrash(ctx, filepath.Join(p.trash(), grave))
}

func (p *Pool) startDeletion(grave string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[grave] {
		return false
	}
	p.taken[grave] = true
	return true
}

func (p *Pool) letGo(grave string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, grave)
}

func (p *Pool) deleteFromTrash(ctx context.Context, grave string) error {
	group, groupErr := readGroupID(grave)
	if err := p.removeTree(ctx, grave); err != nil {
		return err
	}
	if groupErr != nil {
		return nil // the workspace was deleted before it had a group
	}
	// The group is busy until the kernel's cleaner has released the data. The next sweep tries again.
	if err := removeGroup(p.root, group); err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove the quota group of a deleted workspace: %w", err)
	}
	return nil
}

// removeTree never descends into a subvolume, because the subvolume's content belongs to a guest.
func (p *Pool) removeTree(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := errors.Join(ctx.Err(), p.removeEntry(ctx, filepath.Join(dir, entry.Name()))); err != nil {
			return err
		}
	}
	return os.Remove(dir)
}

func (p *Pool) removeEntry(ctx context.Context, path string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return err
	}
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFDIR:
		return os.Remove(path)
	case stat.Ino == subvolInode:
		return p.destroy(path)
	default:
		return p.removeTree(ctx, path)
	}
}

// DropHalfMade removes unfinished disks and volumes of an earlier process. It must be called before CreateDisk.
func (p *Pool) DropHalfMade(ctx context.Context) error {
	workspaces, err := p.ListWorkspaces()
	if err != nil {
		return err
	}
	dirs := []string{filepath.Join(p.volumes(), "*")}
	for _, workspace := range workspaces {
		dirs = append(dirs, filepath.Join(p.WorkspaceDir(workspace), "disks"))
	}
	for _, dir := range dirs {
		dirty, err := filepath.Glob(filepath.Join(dir, ".new-*"))
		if err != nil {
			return err
		}
		for _, path := range dirty {
			if err := errors.Join(ctx.Err(), p.removeEntry(ctx, path)); err != nil {
				return err
			}
		}
	}
	return nil
}
