package pool

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
)

const (
	keptName      = "kept" // file next to a volume's data: since when the volume is an orphan
	keptBytesMax  = 64
	keptTemporary = ".kept-"
)

// KeepVolume marks a volume as an orphan and stores the time; a second call does not change it. "" removes the mark.
// os.ErrNotExist: no such volume.
func (p *Pool) KeepVolume(id, since string) error {
	if err := checkName("volume", id); err != nil {
		return err
	}
	dir := p.volumeDir(id)
	path := filepath.Join(dir, keptName)
	if since == "" {
		err := os.Remove(path)
		if errors.Is(err, os.ErrNotExist) {
			_, err = os.Stat(dir)
			return err
		}
		return errors.Join(err, SyncDir(dir))
	}
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	temporary := filepath.Join(dir, keptTemporary+rand.Text())
	err := errors.Join(os.WriteFile(temporary, []byte(since), 0o600), SyncDir(temporary))
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary)
		return err
	}
	return SyncDir(dir)
}

// VolumeKeptSince returns the time that KeepVolume stored, or "".
func (p *Pool) VolumeKeptSince(id string) (string, error) {
	text, err := os.ReadFile(filepath.Join(p.volumeDir(id), keptName))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return string(text[:min(len(text), keptBytesMax)]), err
}
