// Package layers mounts template layers and workspaces' disks on them.
//
// A layer is an EROFS image named by its SHA-256: immutable, mounted once per host, shared by every machine.
//
//	<dir>/<digest>.erofs      the image
//	<dir>/mnt/<digest>/       where it is mounted
//	<dir>/verified.json       verified on this boot
package layers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/loopdev"
	"github.com/berth-dev/berth/machine/internal/pool"
	"golang.org/x/sys/unix"
)

// ErrCorrupt means that an image has other bytes than its name says. It is not mounted.
var ErrCorrupt = errors.New("the layer does not have the digest of its name")

var digestPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

type Store struct {
	dir     string
	mu      sync.Mutex
	uses    uses
	reserve reserve
	// These functions are replaced in tests.
	secondLook func(image string)
	syncDir    func(dir string) error
}

// errTouched means that the file's times changed. Only another read shows whether its bytes changed, too.
var errTouched = errors.New("the file changed meanwhile")

// A changed file is read at most this often. Images are hard links to one cache, so each installation changes the times
// of all.
const looksMax = 5

func Open(dir string) *Store {
	return &Store{dir: filepath.Clean(dir), uses: uses{began: time.Now()}, syncDir: pool.SyncDir}
}

// Mount mounts a layer once and returns its directory. A file that changed is read again in full, even if it is
// mounted. Errors: os.ErrNotExist, ErrCorrupt.
func (s *Store) Mount(digest string) (mountpoint string, err error) {
	if !digestPattern.MatchString(digest) {
		return "", fmt.Errorf("%q is not a SHA-256 in hex: %w", digest, unix.EINVAL)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses.note(digest)
	for range looksMax {
		if mountpoint, err = s.mountOnce(digest); !errors.Is(err, errTouched) {
			return mountpoint, err
		}
	}
	return "", fmt.Errorf("%w, %d times: %w", err, looksMax, ErrCorrupt)
}

func (s *Store) mountOnce(digest string) (mountpoint string, err error) {
	point, image := s.mountpoint(digest), filepath.Join(s.dir, digest+".erofs")
	fresh, err := s.verify(image, digest)
	if err != nil {
		return "", err
	}
	mounted := isErofs(point)
	if mounted && !fresh {
		return point, nil
	}
	if mounted { // the old mount may show bytes from before a repair, so only its present users see it
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			return "", fmt.Errorf("detach the old mount of layer %s: %w", digest, err)
		}
	}
	if err := s.mountVerified(image, point); err != nil {
		return "", fmt.Errorf("mount layer %s: %w", digest, err)
	}
	return point, nil
}

// mountVerified compares the file's identity before and after the mount, because it may be replaced after its
// verification.
func (s *Store) mountVerified(image, point string) error {
	before, err := identify(image)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(point, 0o700); err != nil {
		return err
	}
	if err := mountErofs(image, point); err != nil {
		return err
	}
	if err := s.unchanged(image, before); err != nil {
		return errors.Join(err, unix.Unmount(point, unix.MNT_DETACH))
	}
	return nil
}

const mountFlags = unix.MS_RDONLY | unix.MS_NODEV | unix.MS_NOSUID | unix.MS_NOATIME

// mountErofs uses a loop device only if the kernel cannot mount the file itself (before Linux 6.12).
func mountErofs(image, point string) error {
	direct := unix.Mount(image, point, "erofs", mountFlags, "")
	if direct == nil {
		return nil
	}
	if err := mountThroughLoop(image, point); err != nil {
		return errors.Join(direct, err)
	}
	return nil
}

func mountThroughLoop(image, point string) error {
	device, err := loopdev.Attach(image, true)
	if err != nil {
		return err
	}
	defer device.Close()
	if err := unix.Mount(device.Name(), point, "erofs", mountFlags, ""); err != nil {
		return fmt.Errorf("through %s: %w", device.Name(), err)
	}
	return nil
}

func (s *Store) mountpoint(digest string) string { return filepath.Join(s.dir, "mnt", digest) }

func isErofs(point string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(point, &stat) == nil && int64(stat.Type) == unix.EROFS_SUPER_MAGIC_V1
}
