package pool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// spareDisk is the name of a spare's disk until somebody takes it.
const spareDisk = "blank"

// spareLimit is for the few files of the agent that is fitted with it: nobody else writes to a spare.
const spareLimit = 64 << 20

// CreateSpare makes what a new workspace begins with, a blank disk within a limit, before there is one. ENOSPC (wrapped): only the
// reserve is left.
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
	p.behind.soon()
	return nil
}

// SpareDisk is the path of its disk. Mounts of it go on when it is taken.
func (p *Pool) SpareDisk(name string) string {
	return filepath.Join(p.spareDir(name), "disks", spareDisk)
}

// TakeSpare makes a spare a workspace that is not there yet, its disk named and its limit set. It is durable as a disk of CreateDisk is.
// os.ErrExist (wrapped): the workspace is there. ENOSPC (wrapped): only the reserve is left.
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
	p.behind.soon()
	return nil
}

// HasWorkspace says whether anything of a workspace is here.
func (p *Pool) HasWorkspace(workspace string) bool {
	_, err := os.Lstat(p.WorkspaceDir(workspace))
	return !errors.Is(err, os.ErrNotExist)
}

// DeleteSpare removes one that nobody will take. One that is not there is fine.
func (p *Pool) DeleteSpare(ctx context.Context, name string) error {
	if err := checkName("spare", name); err != nil {
		return err
	}
	if err := p.bury(ctx, p.spareDir(name)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// ListSpares names all, half-made ones too.
func (p *Pool) ListSpares() ([]string, error) { return listNames(p.spares()) }

func (p *Pool) spareDir(name string) string { return filepath.Join(p.spares(), component(name)) }
