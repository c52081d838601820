package layers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// identity changes with each write, replacement and boot. The boot counts, because a power cut may have changed
// verified bytes.
type identity struct {
	BootID string `json:"boot_id"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Size   int64  `json:"size_bytes"`
	CTime  int64  `json:"ctime_nanoseconds"`
}

func identify(path string) (identity, error) {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return identity{}, fmt.Errorf("layer %s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return identity{}, fmt.Errorf("layer %s is not a regular file: %w", path, unix.EINVAL)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return identity{}, err
	}
	return identity{strings.TrimSpace(string(boot)), stat.Dev, stat.Ino, stat.Size, stat.Ctim.Nano()}, nil
}

func (s *Store) verify(image, digest string) (fresh bool, err error) {
	before, err := identify(image)
	if err != nil {
		return false, err
	}
	known := s.readVerified()
	if known[digest] == before {
		return false, nil
	}
	sum, err := hashFile(image)
	if err != nil {
		return false, err
	}
	if sum != digest {
		return false, fmt.Errorf("layer %s has digest %s: %w", digest, sum, ErrCorrupt)
	}
	if err := s.unchanged(image, before); err != nil {
		return false, fmt.Errorf("layer %s was read: %w", digest, err)
	}
	known[digest] = before
	return true, s.writeVerified(known)
}

func (s *Store) unchanged(image string, before identity) error {
	if s.secondLook != nil {
		s.secondLook(image)
	}
	after, err := identify(image)
	if err == nil && after != before {
		return errTouched
	}
	return err
}

func hashFile(path string) (string, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.CopyBuffer(hash, io.LimitReader(file, 1<<40), make([]byte, 1<<20)); err != nil {
		return "", fmt.Errorf("read layer %s: %w", path, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// readVerified returns an empty cache if the file is unreadable. The images are then read again.
func (s *Store) readVerified() map[string]identity {
	known := map[string]identity{}
	if text, err := os.ReadFile(s.cache()); err == nil && json.Unmarshal(text, &known) != nil {
		known = map[string]identity{}
	}
	return known
}

func (s *Store) writeVerified(known map[string]identity) error {
	text, err := json.Marshal(known)
	if err != nil {
		return err
	}
	fresh := s.cache() + ".new"
	if err = os.WriteFile(fresh, text, 0o600); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	return os.Rename(fresh, s.cache())
}

func (s *Store) cache() string { return filepath.Join(s.dir, "verified.json") }
