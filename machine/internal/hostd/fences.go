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

// fences stores each workspace's highest fencing token outside the pool. So a deleted workspace has its token still,
// and a late start cannot restore it.
type fences struct {
	dir string
}

// fenceKept is far longer than any call or lease, so no call with an older token can arrive after the file's removal.
const fenceKept = 7 * 24 * time.Hour

func openFences(dir string) (*fences, error) {
	return &fences{dir: dir}, os.MkdirAll(dir, 0o700)
}

// A power cut can empty a file. Reading it as 0 is safe: no process with an older token survived the power cut.
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

func (f *fences) list() ([]string, error) {
	entries, err := os.ReadDir(f.dir)
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

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
