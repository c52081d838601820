package output

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Keeper holds one bound over what the streams of many commands retain: ended commands give theirs up first, the oldest
// before the others. Then running commands give up their oldest segments. Where running commands hold more than half, they go first:
// otherwise one that floods would take away what a short command has just said. Nobody waits for the disk with mu held.
type Keeper struct {
	knownMax int

	mu      sync.Mutex
	limit   int64
	total   int64
	running map[*Stream]bool
	ended   []holding // oldest first
}

// holding is what one ended command retains.
type holding struct {
	dir     string
	bytes   int64
	streams []*Stream // nil: of an earlier boot, or so long ago that only the files are known
}

// garbage is what was given up, and still lies on the disk.
type garbage []func()

func (g garbage) remove() {
	for _, one := range g {
		one()
	}
}

// NewKeeper remembers the streams of so many ended commands, and of older ones only where their files lie.
func NewKeeper(limit int64, knownMax int) *Keeper {
	return &Keeper{limit: limit, knownMax: knownMax, running: map[*Stream]bool{}}
}

// locked runs act with mu held, makes room, and removes what was given up.
func (k *Keeper) locked(act func()) {
	k.mu.Lock()
	act()
	gone := k.makeRoom()
	k.mu.Unlock()
	gone.remove()
}

// SetLimit changes the bound.
func (k *Keeper) SetLimit(bytes int64) { k.locked(func() { k.limit = bytes }) }

// SegmentBytes is the size of a new stream's segments.
func (k *Keeper) SegmentBytes() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return SegmentFor(k.limit)
}

// Began counts streams, empty ones, as running.
func (k *Keeper) Began(streams ...*Stream) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range streams {
		k.running[s] = true
	}
}

// Grew takes what an Append of a running stream answered.
func (k *Keeper) Grew(bytes int64) { k.locked(func() { k.total += bytes }) }

// Ended has the streams of a running command, which lie in dir, count as those of the command that ended last.
func (k *Keeper) Ended(dir string, streams ...*Stream) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one := holding{dir: dir, streams: streams}
	for _, s := range streams {
		delete(k.running, s)
		one.bytes += s.Retained()
	}
	k.ended = append(k.ended, one)
	if n := len(k.ended) - k.knownMax; n > 0 {
		k.ended[n-1].streams = nil
	}
}

// Earlier counts commands of earlier boots, oldest first: what their files hold, by directory. Those that ended meanwhile are left out.
func (k *Keeper) Earlier(dirs []string) {
	old := make([]holding, 0, len(dirs))
	for _, dir := range dirs {
		old = append(old, holding{dir: dir, bytes: filesBytes(dir)})
	}
	k.locked(func() {
		known := make(map[string]bool, len(k.ended))
		for _, one := range k.ended {
			known[one.dir] = true
		}
		old = slices.DeleteFunc(old, func(one holding) bool { return known[one.dir] })
		for _, one := range old {
			k.total += one.bytes
		}
		k.ended = append(old, k.ended...)
	})
}

// Beyond no longer counts the oldest ended commands but for so many, and returns their directories: to be removed.
func (k *Keeper) Beyond(count int) (dirs []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.ended) > count {
		dirs = append(dirs, k.ended[0].dir)
		k.total -= k.ended[0].bytes
		k.ended = k.ended[1:]
	}
	return dirs
}

// makeRoom runs with mu held.
func (k *Keeper) makeRoom() (gone garbage) {
	for k.total > k.limit && k.runningBytes() > k.limit/2 && k.trimRunning(&gone) {
	}
	for i := 0; i < len(k.ended) && k.total > k.limit; i++ {
		k.forget(&k.ended[i], &gone)
	}
	for k.total > k.limit && k.trimRunning(&gone) {
	}
	return gone // where it is not enough, only segments that are still written remain
}

// forget gives up an ended command's output; its record stays.
func (k *Keeper) forget(one *holding, gone *garbage) {
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

// trimRunning gives up one segment of the running stream that retains most. false: it can spare none.
func (k *Keeper) trimRunning(gone *garbage) bool {
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

func (k *Keeper) runningBytes() (total int64) {
	for s := range k.running {
		total += s.Retained()
	}
	return total
}

// isSegment tells the files of streams from a record beside them.
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
