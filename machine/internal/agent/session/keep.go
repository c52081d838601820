package session

import (
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

func (m *Manager) index() {
	defer close(m.indexed)
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return
	}
	type found struct {
		dir string
		at  time.Time
	}
	var old []found
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), recordSuffix)
		info, err := e.Info()
		if ok && err == nil {
			old = append(old, found{filepath.Join(m.dir, name), info.ModTime()})
		}
	}
	sort.Slice(old, func(i, j int) bool { return old[i].at.Before(old[j].at) })
	mine := m.knownDirs()
	var all, dirs []string
	for _, f := range old {
		all = append(all, f.dir)
		if !mine[f.dir] {
			dirs = append(dirs, f.dir)
		}
	}
	m.begins.earlier(all)
	m.keep.Earlier(dirs)
}

func (m *Manager) knownDirs() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	dirs := make(map[string]bool, len(m.known))
	for _, s := range m.known {
		dirs[s.dir] = true
	}
	return dirs
}
