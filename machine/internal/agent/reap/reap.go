// Package reap waits for every child of the agent: one thread blocked in wait4, no polling.
package reap

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// earlyMax bounds the exits that nobody has asked for yet. Starts under way leave some, and ask soon: beyond the bound the oldest go.
const earlyMax = 4096

type Reaper struct {
	mu       sync.Mutex
	handlers map[int]func(unix.WaitStatus)
	early    map[int]early
	count    uint64 // of all that came early
	poke     chan struct{}
}

type early struct {
	status unix.WaitStatus
	number uint64 // grows with each
}

// New starts waiting.
func New() *Reaper {
	ignoreSIGCHLD()
	r := &Reaper{handlers: map[int]func(unix.WaitStatus){}, early: map[int]early{}, poke: make(chan struct{}, 1)}
	go r.loop()
	return r
}

// ignoreSIGCHLD gives SIGCHLD its default action (SIG_DFL), which does nothing. It does not set SIG_IGN, under which the kernel would reap
// the children itself. So children can be waited for, and the end of one interrupts no thread of the runtime.
func ignoreSIGCHLD() {
	// The kernel's sigaction: handler, flags, restorer, mask. It cannot fail, and without it all goes on, a little slower.
	var action [4]uintptr
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
}

// Watch has handler called once with the end of pid, on the reaper's goroutine, or at once if it ended already.
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
		r.keep(pid, status)
	}
	r.mu.Unlock()
	if handler != nil {
		handler(status)
	}
}

// keep runs with mu held.
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
