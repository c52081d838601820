package session

import (
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/output"
)

// outputBytesDefault bounds retained output when the incarnation names no limit.
const outputBytesDefault = 256 << 20

// keeper holds one bound over the retained output of all sessions: the oldest ended ones give theirs up first, then the
// running ones their oldest segments. Running ones that hold more than half go before them: whoever floods pays for it, or
// nobody beside a flood could read what a short command has just said.
type keeper struct {
	manager *Manager

	mu    sync.Mutex
	limit int64
	total int64
	ended []kept // oldest first
}

type kept struct {
	dir   string
	bytes int64
	s     *Session // nil: of an earlier boot
}

func newKeeper(m *Manager) *keeper { return &keeper{manager: m, limit: outputBytesDefault} }

func (k *keeper) setLimit(bytes int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if bytes > 0 {
		k.limit = bytes
	}
	k.makeRoom()
}

func (k *keeper) segmentBytes() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return output.SegmentFor(k.limit)
}

func (k *keeper) grew(n int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.total += n
	if k.total > k.limit {
		k.makeRoom()
	}
}

func (k *keeper) sessionEnded(s *Session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = append(k.ended, kept{dir: s.dir, bytes: s.stdout.Retained() + s.stderr.Retained(), s: s})
	for len(k.ended) > sessionMax {
		oldest := k.ended[0]
		k.ended = k.ended[1:]
		k.total -= oldest.bytes
		// What stays behind is found by the next boot's index: the record goes last.
		_ = os.RemoveAll(oldest.dir)
		_ = os.Remove(oldest.dir + recordSuffix)
	}
	if n := len(k.ended) - cachedMax; n > 0 && n <= len(k.ended) {
		k.ended[n-1].s = nil
	}
}

// makeRoom runs with mu held.
func (k *keeper) makeRoom() {
	for k.total > k.limit && k.runningBytes() > k.limit/2 {
		freed := k.trimRunning()
		if freed == 0 {
			break
		}
		k.total -= freed
	}
	for i := range k.ended {
		if k.total <= k.limit {
			return
		}
		if k.ended[i].bytes > 0 {
			k.total -= k.ended[i].bytes
			k.ended[i].bytes = 0
			k.ended[i].forget()
		}
	}
	for k.total > k.limit {
		freed := k.trimRunning()
		if freed == 0 {
			// Only segments that are still written remain, or what the disk refused: recount.
			k.recount()
			return
		}
		k.total -= freed
	}
}

// forget removes an ended session's output; its record stays.
func (e kept) forget() {
	if e.s != nil {
		for e.s.stdout.DropOldest() > 0 || e.s.stderr.DropOldest() > 0 {
		}
		return
	}
	names, _ := filepath.Glob(filepath.Join(e.dir, "std*.*"))
	for _, name := range names {
		_ = os.Remove(name)
	}
}

// trimRunning drops one segment of the running stream that holds most.
func (k *keeper) trimRunning() int64 {
	var largest *output.Stream
	var most int64
	for _, stream := range k.runningStreams() {
		if n := stream.Retained(); n > most {
			largest, most = stream, n
		}
	}
	if largest == nil {
		return 0
	}
	return largest.DropOldest()
}

func (k *keeper) runningBytes() (total int64) {
	for _, stream := range k.runningStreams() {
		total += stream.Retained()
	}
	return total
}

func (k *keeper) runningStreams() (all []*output.Stream) {
	k.manager.processes.Range(func(key, _ any) bool {
		all = append(all, key.(*Session).stdout, key.(*Session).stderr)
		return true
	})
	return all
}

func (k *keeper) recount() {
	k.total = 0
	for _, e := range k.ended {
		k.total += e.bytes
	}
	k.total += k.runningBytes()
}

// index counts what earlier boots left, oldest first.
func (k *keeper) index() {
	entries, err := os.ReadDir(k.manager.dir)
	if err != nil {
		return
	}
	type found struct {
		kept
		at time.Time
	}
	var old []found
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), recordSuffix)
		if !ok {
			continue
		}
		f := found{kept: kept{dir: filepath.Join(k.manager.dir, name)}}
		info, err := e.Info()
		if err != nil {
			continue
		}
		f.at = info.ModTime()
		f.bytes = outputBytes(f.dir)
		old = append(old, f)
	}
	sort.Slice(old, func(i, j int) bool { return old[i].at.Before(old[j].at) })
	mine := k.manager.knownDirs()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.ended {
		mine[e.dir] = true
	}
	list := make([]kept, 0, len(old)+len(k.ended))
	for _, f := range old {
		if !mine[f.dir] {
			list = append(list, f.kept)
			k.total += f.bytes
		}
	}
	k.ended = append(list, k.ended...)
	k.makeRoom()
}

func outputBytes(dir string) (total int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "std") {
			continue
		}
		if info, err := e.Info(); err == nil {
			total += info.Size()
		}
	}
	return total
}
