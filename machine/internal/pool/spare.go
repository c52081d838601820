package pool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const spareDisk = "blank"

// spareLimit is enough for the agent's few files.
const spareLimit = 64 << 20

// CreateSpare makes a spare: a future workspace with a blank disk. ENOSPC (wrapped): only the reserve is left.
func (p *Pool) CreateSpare(name string) error {
	if err := checkName("spare", name); err != nil {
		return err
	}
	dir := p.spareDir(name)
	if err := errors.Join(p.Admit(), makeDirs(dir)); err != nil {
		return err
	}
	if err := p.setLimit(dir, spareLimit); err != nil {
		return err
	}
	if err := p.createDisk(dir, spareDisk); err != nil {
		return fmt.Errorf("create a spare disk: %w", err)
	}
	p.behind.requestCommit()
	return nil
}

// SpareDisk is the path of a spare's disk. Mounts of the disk are still valid after TakeSpare.
func (p *Pool) SpareDisk(name string) string {
	return filepath.Join(p.spareDir(name), "disks", spareDisk)
}

// TakeSpare turns a spare into a workspace. The workspace is durable only after WaitDurable. os.ErrExist (wrapped):
// the workspace exists. ENOSPC (wrapped): only the reserve is left.
func (p *Pool) TakeSpare(name, workspace, disk string, quotaGiB int) error {
	if err := errors.Join(checkName("spare", name), checkName("workspace", workspace), checkName("disk", disk), p.Admit()); err != nil {
		return err
	}
	limit, err := limitOf(quotaGiB)
	if err != nil {
		return err
	}
	dir := p.spareDir(name)
	if err := p.setLimit(dir, limit); err != nil {
		return err
	}
	if err := os.Rename(p.SpareDisk(name), filepath.Join(dir, "disks", disk)); err != nil {
		return err
	}
	if err := unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, p.WorkspaceDir(workspace), unix.RENAME_NOREPLACE); err != nil {
		return fmt.Errorf("make a spare workspace %s: %w", workspace, err)
	}
	p.behind.requestCommit()
	return nil
}

func (p *Pool) HasWorkspace(workspace string) bool {
	_, err := os.Lstat(p.WorkspaceDir(workspace))
	return !errors.Is(err, os.ErrNotExist)
}

// DeleteSpare removes a spare that is no workspace yet, if it exists.
func (p *Pool) DeleteSpare(ctx context.Context, name string) error {
	if err := checkName("spare", name); err != nil {
		return err
	}
	if err := p.deleteFromTrash(ctx, p.spareDir(name)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// ListSpares lists all spares, including unfinished ones.
func (p *Pool) ListSpares() ([]string, error) { return listNames(p.spares()) }

func (p *Pool) spareDir(name string) string { return filepath.Join(p.spares(), component(name)) }
