package watch

import (
	"encoding/json"
	"sync"

	"github.com/berth-dev/berth/machine/internal/agent/output"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// Only the newest events within these limits are stored. A reader that resumes before them has missed events.
const (
	eventsMax = 8192
	bytesMax  = 512 << 10
)

// An event's offset is the number of the next event. A reader that resumes there misses none.
type events struct {
	mu     sync.Mutex
	notice output.Notice
	lines  [][]byte
	first  int64
	bytes  int
	ended  bool
}

func (e *events) add(event wire.WatchEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return
	}
	offset := e.first + int64(len(e.lines)) + 1
	event.Offset = &offset
	line := encode(event)
	e.lines = append(e.lines, line)
	e.bytes += len(line)
	for len(e.lines) > eventsMax || e.bytes > bytesMax && len(e.lines) > 1 {
		e.bytes -= len(e.lines[0])
		e.lines, e.first = e.lines[1:], e.first+1
	}
	e.ended = event.Type == wire.WatchEnd
	e.notice.Wake()
}

// from returns the events after offset. begin is later than offset if events were dropped.
func (e *events) from(offset int64) (lines [][]byte, begin int64, ended bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	begin = max(offset, e.first)
	lines = append(lines, e.lines[min(begin-e.first, int64(len(e.lines))):]...)
	return lines, begin, e.ended
}

func (e *events) has(offset int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return offset >= e.first && offset <= e.first+int64(len(e.lines))
}

func (e *events) isOver(offset int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ended && offset >= e.first+int64(len(e.lines))
}

func encode(event wire.WatchEvent) []byte {
	line, err := json.Marshal(event)
	if err != nil {
		panic(err) // only strings and numbers
	}
	return append(line, '\n')
}
