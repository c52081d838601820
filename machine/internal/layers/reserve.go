package layers

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// PostgreSQL and the fencing tokens share the file system.
type reserve struct {
	mu    sync.Mutex
	bytes int64
	held  int64 // by images that are being written
}

// KeepFree makes Make leave this many bytes.
func (s *Store) KeepFree(bytes int64) { s.reserve.bytes = bytes }

// The file system does not count an unwritten image.
func (s *Store) hold(bytes int64) (release func(), err error) {
	r := &s.reserve
	r.mu.Lock()
	defer r.mu.Unlock()
	var fs unix.Statfs_t
	if err := unix.Statfs(s.dir, &fs); err != nil {
		return nil, fmt.Errorf("statfs %s: %w", s.dir, err)
	}
	if free := int64(fs.Bavail) * fs.Bsize; r.bytes > 0 && free-r.held-bytes < r.bytes {
		return nil, fmt.Errorf("an image of up to %d bytes would leave less than the reserve of %d: %w", bytes, r.bytes, unix.ENOSPC)
	}
	r.held += bytes
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.held -= bytes
	}, nil
}
