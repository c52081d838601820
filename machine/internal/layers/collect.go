package layers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/pool"
)

type Image struct {
	Digest    string
	SizeBytes int64
	// The time since the last request, or since this process's start, because earlier requests are unknown.
	Idle time.Duration
}

// uses records when layers were last requested. The store's lock guards it.
type uses struct {
	began time.Time // monotonic clock
	last  map[string]time.Time
}

func (u *uses) note(digest string) {
	if u.last == nil {
		u.last = map[string]time.Time{}
	}
	u.last[digest] = time.Now()
}

func (u *uses) since(digest string) time.Time {
	if last, ok := u.last[digest]; ok {
		return last
	}
	return u.began
}

// Images lists the images. It also returns the time of the listing, which Drop needs.
func (s *Store) Images() (images []Image, at time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at = time.Now()
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, at, nil
	}
	if err != nil {
		return nil, at, err
	}
	for _, entry := range entries {
		digest, ok := strings.CutSuffix(entry.Name(), ".erofs")
		if !ok || !digestPattern.MatchString(digest) || !entry.Type().IsRegular() {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, at, err
		}
		images = append(images, Image{Digest: digest, SizeBytes: info.Size(), Idle: s.idle(digest, info)})
	}
	return images, at, nil
}

// idle returns how long the image was not requested. A copied image had no request in this process, so the time since
// its last change counts if that is shorter. A time in the future is treated as now.
func (s *Store) idle(digest string, info os.FileInfo) time.Duration {
	asked := time.Since(s.uses.since(digest))
	placed := time.Since(info.ModTime())
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		placed = time.Since(time.Unix(stat.Ctim.Unix()))
	}
	return max(0, min(asked, placed))
}

// Drop removes a layer, unless it was requested since the listing or within `idle`. Existing mounts can still be read.
// The image file is removed last, so that an interrupted drop can be repeated.
func (s *Store) Drop(digest string, looked time.Time, idle time.Duration, at func(step string) error) (dropped bool, err error) {
	if !digestPattern.MatchString(digest) {
		return false, fmt.Errorf("%q is not a SHA-256 in hex: %w", digest, unix.EINVAL)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	image, point := filepath.Join(s.dir, digest+".erofs"), s.mountpoint(digest)
	info, err := os.Lstat(image)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if s.uses.since(digest).After(looked) || s.idle(digest, info) < idle {
		return false, nil
	}
	if err := at("unmount"); err != nil {
		return false, err
	}
	if isErofs(point) {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			return false, fmt.Errorf("detach layer %s: %w", digest, err)
		}
	}
	if err := os.Remove(point); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	if err := at("remove"); err != nil {
		return false, err
	}
	known := s.readVerified()
	delete(known, digest)
	if err := errors.Join(s.writeVerified(known), os.Remove(image)); err != nil {
		return false, err
	}
	delete(s.uses.last, digest)
	return true, pool.SyncDir(s.dir)
}
