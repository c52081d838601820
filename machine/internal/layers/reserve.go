package layers

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// reserve is the free space that images must leave, because PostgreSQL and the fencing tokens are on the same file
// system.
type reserve struct {
	mu    sync.Mutex
	bytes int64
	held  int64 // reserved for images that are being written
}

// KeepFree sets the number of bytes that Make must leave free.
func (s *Store) KeepFree(bytes int64) { s.reserve.bytes = bytes }

// hold reserves space for an image, because the file system does not count an image before it is written.
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
