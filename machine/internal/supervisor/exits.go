package supervisor

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	exitsMax      = 1024
	exitStatusMax = 2 * time.Second
)

// exits has the children's exit statuses. It also gets those of foreign orphans, which are never read.
var exits = exitTable{statuses: map[int]unix.WaitStatus{}, changed: make(chan struct{})}

type exitTable struct {
	mu       sync.Mutex
	statuses map[int]unix.WaitStatus
	order    []int
	changed  chan struct{}
}

func (t *exitTable) note(pid int, status unix.WaitStatus) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.statuses[pid] = status
	t.order = append(t.order, pid)
	if len(t.order) > exitsMax {
		delete(t.statuses, t.order[0])
		t.order = t.order[1:]
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

// take waits for the status, because the reaper may run after the pidfd reports the end. It returns false for a child
// of an earlier supervisor.
func (t *exitTable) take(pid int) (unix.WaitStatus, bool) {
	deadline := time.After(exitStatusMax)
	for {
		t.mu.Lock()
		status, ok := t.statuses[pid]
		changed := t.changed
		delete(t.statuses, pid)
		t.mu.Unlock()
		if ok {
			return status, true
		}
		select {
		case <-changed:
		case <-deadline:
			return 0, false
		}
	}
}

func describe(status unix.WaitStatus, known bool) string {
	switch {
	case !known:
		return "ended"
	case status.Signaled():
		return fmt.Sprintf("ended by %s", unix.SignalName(status.Signal()))
	default:
		return fmt.Sprintf("ended with exit code %d", status.ExitStatus())
	}
}
