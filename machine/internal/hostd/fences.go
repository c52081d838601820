package hostd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/machine/internal/onepage"
)

// fences remembers the highest fence of every workspace, in a file each. The files lie beside the pool, so that a deleted workspace
// stays fenced: a start that comes late must not bring it back to life.
type fences struct {
	dir string
}

// fenceKept is how long a deleted workspace's fence is remembered: far longer than any call or lease lives.
const fenceKept = 7 * 24 * time.Hour

func openFences(dir string) (*fences, error) {
	return &fences{dir: dir}, os.MkdirAll(dir, 0o700)
}

// read returns 0 for a workspace that was never seen, and for a file that lost its content with the computer's power: everybody
// who could hold an older fence of this computer died with it.
func (f *fences) read(workspace string) (int64, error) {
	text, err := os.ReadFile(f.path(workspace))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	fence, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, nil
	}
	return fence, nil
}

func (f *fences) write(workspace string, fence int64) error {
	return onepage.Write(f.path(workspace), []byte(strconv.FormatInt(fence, 10)+"\n"))
}

// list names the workspaces whose fences are remembered.
func (f *fences) list() ([]string, error) {
	entries, err := os.ReadDir(f.dir)
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

// forget drops the fence of a deleted workspace when it is old.
func (f *fences) forget(workspace string, now time.Time) error {
	info, err := os.Lstat(f.path(workspace))
	if err == nil && now.Sub(info.ModTime()) >= fenceKept {
		err = os.Remove(f.path(workspace))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (f *fences) path(workspace string) string { return filepath.Join(f.dir, workspace) }
