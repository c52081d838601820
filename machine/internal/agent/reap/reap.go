// Package reap waits for every child of the agent: one thread blocked in wait4, no polling.
package reap

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// earlyMax bounds the exits that nobody has asked for yet. Only starts under way leave any.
const earlyMax = 4096

type Reaper struct {
	mu       sync.Mutex
	handlers map[int]func(unix.WaitStatus)
	early    map[int]unix.WaitStatus
	poke     chan struct{}
}

// New starts waiting.
func New() *Reaper {
	ignoreSIGCHLD()
	r := &Reaper{handlers: map[int]func(unix.WaitStatus){}, early: map[int]unix.WaitStatus{}, poke: make(chan struct{}, 1)}
	go r.loop()
	return r
}

// ignoreSIGCHLD gives the signal back its default action, which is none: children stay to be waited for, and no thread of the
// runtime is interrupted at each end of one.
func ignoreSIGCHLD() {
	// The kernel's sigaction: handler, flags, restorer, mask. It cannot fail, and without it all goes on, a little slower.
	var action [4]uintptr
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
}

// Watch has handler called once with the end of pid, on the reaper's goroutine, or at once if it ended already.
func (r *Reaper) Watch(pid int, handler func(unix.WaitStatus)) {
	r.mu.Lock()
	status, ended := r.early[pid]
	delete(r.early, pid)
	if !ended {
		r.handlers[pid] = handler
	}
	r.mu.Unlock()
	if ended {
		handler(status)
		return
	}
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

// Forget has the end of pid dropped.
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
		if len(r.early) >= earlyMax {
			clear(r.early)
		}
		r.early[pid] = status
	}
	r.mu.Unlock()
	if handler != nil {
		handler(status)
	}
}
