package pool

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// namePattern excludes hidden names, "." and "..". So no caller can name the pool's temporary files.
var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9@._-]{0,127}$`)

func checkName(kind, name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%s name %q is not allowed: %w", kind, name, unix.EINVAL)
	}
	return nil
}

// component makes a bad name harmless, for functions that only build a path and cannot return an error.
func component(name string) string {
	if namePattern.MatchString(name) {
		return name
	}
	return ".invalid"
}

func (p *Pool) WorkspaceDir(workspace string) string {
	return filepath.Join(p.workspaces(), component(workspace))
}

func (p *Pool) DiskPath(workspace, name string) string {
	return filepath.Join(p.WorkspaceDir(workspace), "disks", component(name))
}

// CheckpointDir is the path of a checkpoint. The caller makes the directory.
func (p *Pool) CheckpointDir(workspace, id string) string {
	return filepath.Join(p.WorkspaceDir(workspace), "checkpoints", component(id))
}

func (p *Pool) workspaces() string { return filepath.Join(p.config.Mount, "ws") }
func (p *Pool) spares() string     { return filepath.Join(p.config.Mount, "spare") }
func (p *Pool) trash() string      { return filepath.Join(p.config.Mount, "trash") }

func (p *Pool) workspaceOf(path string) (string, error) {
	relative, err := filepath.Rel(p.workspaces(), filepath.Clean(path))
	parts := strings.Split(relative, string(filepath.Separator))
	if err != nil || len(parts) < 3 {
		return "", fmt.Errorf("%s is not below a workspace of the pool: %w", path, unix.EINVAL)
	}
	for _, part := range parts {
		if err := checkName("path", part); err != nil {
			return "", err
		}
	}
	return parts[0], nil
}

func (p *Pool) OpenBelow(path string) (*os.File, error) { return p.openBelow(path) }

// openBelow follows no symbolic link, because a guest controls the content of its disks.
func (p *Pool) openBelow(path string) (*os.File, error) {
	relative, err := filepath.Rel(p.config.Mount, filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	how := &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	fd, err := unix.Openat2(int(p.root.Fd()), relative, how)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}
