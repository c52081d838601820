package testns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	folders     = "bt-*" // short, because paths of sockets below it are limited
	lockName    = "lock"
	groupPrefix = "cgroup-"
	cgroups     = "/sys/fs/cgroup"
	// The process of a folder that is newer than this may not have locked it yet.
	youngest = time.Minute
)

// TakeDown removes objects that tests left, except cgroups and files. Processes and mounts have ended before.
var TakeDown func(folder string) error

type folder struct {
	path string
	lock *os.File
}

func newFolder() (*folder, error) {
	path, err := os.MkdirTemp("", folders)
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	// Every user may write to the folder, because tests have processes of other users.
	return &folder{path, lock}, errors.Join(syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), os.Chmod(path, 0o777|os.ModeSticky))
}

// sweep removes folders of earlier runs. A locked folder belongs to a run that is going on.
func sweep() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), folders))
	for _, path := range left {
		if about, err := os.Stat(path); err != nil || time.Since(about.ModTime()) < youngest && !locked(path) {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			lock.Close()
			continue
		}
		if err := (&folder{path, lock}).takeDown(); err != nil {
			fmt.Fprintf(os.Stderr, "%s of an earlier run: %v\n", path, err)
		}
	}
}

func locked(path string) bool {
	_, err := os.Stat(filepath.Join(path, lockName))
	return err == nil
}

func (f *folder) takeDown() error {
	defer f.lock.Close()
	var failed error
	if TakeDown != nil {
		failed = TakeDown(f.path)
	}
	notes, _ := filepath.Glob(filepath.Join(f.path, groupPrefix+"*"))
	for _, note := range notes {
		failed = errors.Join(failed, removeGroups(strings.TrimPrefix(filepath.Base(note), groupPrefix)))
	}
	return errors.Join(failed, os.RemoveAll(f.path))
}

// NotesGroup records an instance's cgroups for the removal. It must be called before they are made.
func NotesGroup(t testing.TB, instance string) {
	t.Helper()
	if err := noteGroup(instance); err != nil {
		t.Fatal(err)
	}
}

func noteGroup(instance string) error {
	return os.WriteFile(filepath.Join(os.TempDir(), groupPrefix+"berth-"+instance), nil, 0o600)
}

func removeGroups(name string) error {
	direct, _ := filepath.Glob(filepath.Join(cgroups, name))
	deeper, _ := filepath.Glob(filepath.Join(cgroups, "*", name))
	var failed error
	for _, root := range append(direct, deeper...) {
		var found []string
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				found = append(found, path)
			}
			return nil // after an error, the group was just removed
		})
		slices.Reverse(found)
		for _, path := range found {
			if err := syscall.Rmdir(path); err != nil && !errors.Is(err, syscall.ENOENT) {
				failed = errors.Join(failed, fmt.Errorf("remove %s: %w", path, err))
			}
		}
	}
	return failed
}
