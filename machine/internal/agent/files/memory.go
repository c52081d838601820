package files

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// remembered caches digests: hashing is most of a read's cost, and most files are read again.
var remembered = digests{of: map[version]string{}}

const (
	digestsMax = 1024
	// Only a file that has not changed for this long is cached: a recent file may change again without a new time
	// stamp.
	settledFor = 2 * time.Second
)

type version struct {
	dev, ino                    uint64
	size, mtime, ctime, ctimeNs int64
}

type digests struct {
	mu sync.Mutex
	of map[version]string
}

func versionOf(st *unix.Stat_t) version {
	return version{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtime: st.Mtim.Nano(), ctime: int64(st.Ctim.Sec), ctimeNs: int64(st.Ctim.Nsec)}
}

func (d *digests) find(st *unix.Stat_t) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sum, ok := d.of[versionOf(st)]
	return sum, ok
}

func (d *digests) keep(before, after *unix.Stat_t, sum string) {
	v := versionOf(before)
	changed := time.Unix(before.Ctim.Unix())
	if v != versionOf(after) || time.Since(changed) < settledFor || before.Size == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.of) >= digestsMax {
		clear(d.of)
	}
	d.of[v] = sum
}
