package engine

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// programStore stores programs as files. A program is renamed into place when complete, so no partial one is visible.
type programStore struct {
	dir, file string

	mu     sync.Mutex
	inHand map[string]int  // how many running verbs use each program
	seen   map[string]bool // used by a verb since beginCollection
}

func openKeep(dir, file string) (*programStore, error) {
	return &programStore{dir: dir, file: file, inHand: map[string]int{}, seen: map[string]bool{}}, os.MkdirAll(dir, 0o700)
}

func (k *programStore) path(name string) string { return filepath.Join(k.dir, name, k.file) }

func (k *programStore) has(name string) bool {
	_, err := os.Stat(k.path(name))
	return err == nil
}

func (k *programStore) names() ([]string, error) {
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if k.has(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

func (k *programStore) hold(name string) (release func(), ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if name == "" || !k.has(name) {
		return nil, false
	}
	k.inHand[name]++
	k.seen[name] = true
	return sync.OnceFunc(func() { k.letGo(name) }), true
}

func (k *programStore) letGo(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen[name] = true
	if k.inHand[name]--; k.inHand[name] == 0 {
		delete(k.inHand, name)
	}
}

// beginCollection starts a collection. collect does not remove a program that a verb uses after this call.
func (k *programStore) beginCollection() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.seen)
}

// The caller must determine `needed` after beginCollection. Otherwise a program could become needed unnoticed.
func (k *programStore) collect(needed map[string]bool) (removed []string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		name := entry.Name()
		if needed[name] || k.seen[name] || k.inHand[name] > 0 {
			continue
		}
		if err := os.RemoveAll(filepath.Join(k.dir, name)); err != nil {
			return removed, err
		}
		removed = append(removed, name)
	}
	return removed, nil
}

type staged struct {
	keep *programStore
	file *os.File
}

func (k *programStore) stage(source io.Reader) (*staged, error) {
	file, err := os.CreateTemp(k.dir, "tmp-")
	if err != nil {
		return nil, err
	}
	s := &staged{keep: k, file: file}
	if _, err := io.Copy(file, source); err != nil {
		s.discard()
		return nil, err
	}
	return s, nil
}

func (s *staged) discard() {
	s.file.Close()
	os.Remove(s.file.Name()) // fails harmlessly if become has renamed the file
}

func (s *staged) become(name string, modified time.Time) error {
	path := s.keep.path(name)
	if err := errors.Join(s.file.Chmod(0o555), os.Chtimes(s.file.Name(), modified, modified), s.file.Sync(), os.MkdirAll(filepath.Dir(path), 0o700)); err != nil {
		return err
	}
	if err := os.Rename(s.file.Name(), path); err != nil {
		return err
	}
	return errors.Join(syncDir(filepath.Dir(path)), syncDir(s.keep.dir))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
