// Package reap waits for all children of the agent, without polling.
package reap

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Exits without a handler are stored, because Watch is called soon after a fork. Beyond this number the oldest exits
// are dropped.
const earlyMax = 4096

type Reaper struct {
	mu       sync.Mutex
	handlers map[int]func(unix.WaitStatus)
	early    map[int]early
	count    uint64 // early exits so far
	poke     chan struct{}
}

type early struct {
	status unix.WaitStatus
	number uint64 // sequence number
}

func New() *Reaper {
	ignoreSIGCHLD()
	r := &Reaper{handlers: map[int]func(unix.WaitStatus){}, early: map[int]early{}, poke: make(chan struct{}, 1)}
	go r.loop()
	return r
}

// ignoreSIGCHLD sets the default action, which does nothing: no exit interrupts a thread of the Go runtime. With
// SIG_IGN the kernel would reap the children instead of the agent.
func ignoreSIGCHLD() {
	// The kernel's sigaction: handler, flags, restorer, mask. On failure the agent is only slower.
	var action [4]uintptr
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
}

// Watch calls handler once: on the reaper's goroutine or, if pid has ended already, before Watch returns.
func (r *Reaper) Watch(pid int, handler func(unix.WaitStatus)) {
	r.mu.Lock()
	before, ended := r.early[pid]
	delete(r.early, pid)
	if !ended {
		r.handlers[pid] = handler
	}
	r.mu.Unlock()
	if ended {
		handler(before.status)
		return
	}
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

func (r *Reaper) Forget(pid int) { r.Watch(pid, func(unix.WaitStatus) {}) }

func (r *Reaper) loop() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if err == unix.ECHILD {
			<-r.poke
			continue
		}
		if err == nil && pid > 0 {
			r.ended(pid, status)
		}
	}
}

func (r *Reaper) ended(pid int, status unix.WaitStatus) {
	r.mu.Lock()
	handler := r.handlers[pid]
	delete(r.handlers, pid)
	if handler == nil {
		r.keep(pid, status)
	}
	r.mu.Unlock()
	if handler != nil {
		handler(status)
	}
}

func (r *Reaper) keep(pid int, status unix.WaitStatus) {
	r.count++
	r.early[pid] = early{status, r.count}
	if len(r.early) <= earlyMax {
		return
	}
	oldest := pid
	for candidate, end := range r.early {
		if end.number < r.early[oldest].number {
			oldest = candidate
		}
	}
	delete(r.early, oldest)
}
