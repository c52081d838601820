package output

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Store limits all output together. Output of ended commands is evicted first, oldest first, unless running commands
// have more than half: a flood must not evict the output of short commands. No disk access happens with mu held.
type Store struct {
	knownMax int

	mu      sync.Mutex
	limit   int64
	total   int64
	running map[*Stream]bool
	ended   []retainedOutput // oldest first
}

type retainedOutput struct {
	dir     string
	bytes   int64
	streams []*Stream // nil: only the files are known, of an earlier boot or of a command beyond knownMax
}

type garbage []func()

func (g garbage) remove() {
	for _, one := range g {
		one()
	}
}

// NewKeeper has the streams of knownMax ended commands in memory. Of older commands it has only the directory.
func NewKeeper(limit int64, knownMax int) *Store {
	return &Store{limit: limit, knownMax: knownMax, running: map[*Stream]bool{}}
}

func (k *Store) locked(act func()) {
	k.mu.Lock()
	act()
	gone := k.evict()
	k.mu.Unlock()
	gone.remove()
}

func (k *Store) SetLimit(bytes int64) { k.locked(func() { k.limit = bytes }) }

func (k *Store) SegmentBytes() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return SegmentFor(k.limit)
}

// Began adds the streams of a running command, which must be empty.
func (k *Store) Began(streams ...*Stream) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range streams {
		k.running[s] = true
	}
}

// Grew adds the result of an Append to the total, and evicts output above the limit.
func (k *Store) Grew(bytes int64) { k.locked(func() { k.total += bytes }) }

// Ended moves streams with files in dir from running to ended.
func (k *Store) Ended(dir string, streams ...*Stream) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one := retainedOutput{dir: dir, streams: streams}
	for _, s := range streams {
		delete(k.running, s)
		one.bytes += s.Retained()
	}
	k.ended = append(k.ended, one)
	if n := len(k.ended) - k.knownMax; n > 0 {
		k.ended[n-1].streams = nil
	}
}

// Earlier adds directories of earlier boots, oldest first, and skips directories that Ended has added.
func (k *Store) Earlier(dirs []string) {
	old := make([]retainedOutput, 0, len(dirs))
	for _, dir := range dirs {
		old = append(old, retainedOutput{dir: dir, bytes: filesBytes(dir)})
	}
	k.locked(func() {
		known := make(map[string]bool, len(k.ended))
		for _, one := range k.ended {
			known[one.dir] = true
		}
		old = slices.DeleteFunc(old, func(one retainedOutput) bool { return known[one.dir] })
		for _, one := range old {
			k.total += one.bytes
		}
		k.ended = append(old, k.ended...)
	})
}

// Beyond drops all but the newest count ended commands, and returns the dropped directories, which the caller
// deletes.
func (k *Store) Beyond(count int) (dirs []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.ended) > count {
		dirs = append(dirs, k.ended[0].dir)
		k.total -= k.ended[0].bytes
		k.ended = k.ended[1:]
	}
	return dirs
}

func (k *Store) evict() (gone garbage) {
	for k.total > k.limit && k.runningBytes() > k.limit/2 && k.trimRunning(&gone) {
	}
	for i := 0; i < len(k.ended) && k.total > k.limit; i++ {
		k.forget(&k.ended[i], &gone)
	}
	for k.total > k.limit && k.trimRunning(&gone) {
	}
	return gone // bytes above the limit are in segments that are being written
}

func (k *Store) forget(one *retainedOutput, gone *garbage) {
	k.total -= one.bytes
	if one.bytes > 0 && one.streams == nil {
		dir := one.dir
		*gone = append(*gone, func() { removeFiles(dir) })
	}
	for _, s := range one.streams {
		if taken := s.takeAll(); len(taken) > 0 {
			*gone = append(*gone, func() { s.remove(taken) })
		}
	}
	one.bytes = 0
}

func (k *Store) trimRunning(gone *garbage) bool {
	var largest *Stream
	var most int64
	for s := range k.running {
		if n := s.Retained(); n > most {
			largest, most = s, n
		}
	}
	if largest == nil {
		return false
	}
	taken := largest.takeOldest()
	for _, old := range taken {
		k.total -= old.end - old.start
	}
	if len(taken) > 0 {
		*gone = append(*gone, func() { largest.remove(taken) })
	}
	return len(taken) > 0
}

func (k *Store) runningBytes() (total int64) {
	for s := range k.running {
		total += s.Retained()
	}
	return total
}

func isSegment(name string) bool {
	for _, stream := range []string{"stdout.", "stderr.", "output."} {
		if strings.HasPrefix(name, stream) {
			return true
		}
	}
	return false
}

func filesBytes(dir string) (total int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if info, err := e.Info(); isSegment(e.Name()) && err == nil {
			total += info.Size()
		}
	}
	return total
}

func removeFiles(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if isSegment(e.Name()) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
