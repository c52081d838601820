package hostd

import (
	"sync"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// events holds the latest events. A reader that is too late sees a gap in the numbers and requests an inventory.
type events struct {
	mu      sync.Mutex
	bootID  string
	last    int64
	kept    []wire.HostEvent
	changed chan struct{}
}

func newEvents(bootID string) *events {
	return &events{bootID: bootID, changed: make(chan struct{})}
}

func (e *events) add(event wire.HostEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	event.Seq, event.BootID = e.last, e.bootID
	e.kept = append(e.kept, event)
	if len(e.kept) > eventsKept {
		e.kept = e.kept[len(e.kept)-eventsKept:]
	}
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *events) after(seq int64) ([]wire.HostEvent, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, event := range e.kept {
		if event.Seq > seq {
			return append([]wire.HostEvent(nil), e.kept[i:]...), e.changed
		}
	}
	return nil, e.changed
}

func (e *events) lastSeq() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}
