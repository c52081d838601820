package pool

import (
	"log/slog"
	"sync"
	"time"
	"unsafe"
)

// writeBehind commits in the background, so that no caller waits. One commit covers all earlier requests.
type writeBehind struct {
	commit func() error
	delay  time.Duration

	mu     sync.Mutex
	wanted bool          // a request came that the running commit may not cover
	idle   chan struct{} // closed when no request is pending; nil if none is
}

// A commit takes 2-9 ms and delays other writes, so callers proceed first. The delay also bounds the rate.
const commitDelay = 200 * time.Millisecond

func (b *writeBehind) requestCommit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wanted = true
	if b.idle == nil {
		b.idle = make(chan struct{})
		go b.run()
	}
}

func (b *writeBehind) run() {
	for b.isWanted() {
		time.Sleep(b.delay)
		b.begin()
		if err := b.commit(); err != nil { // after a failure btrfs accepts no more writes, so every writer gets an error
			slog.Error("new disks are not durable", "error", err)
		}
	}
}

func (b *writeBehind) isWanted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.wanted {
		close(b.idle)
		b.idle = nil
	}
	return b.wanted
}

func (b *writeBehind) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wanted = false
}

func (b *writeBehind) wait() {
	b.mu.Lock()
	idle := b.idle
	b.mu.Unlock()
	if idle != nil {
		<-idle
	}
}

// WaitDurable returns when all disks made by CreateDisk are durable.
func (p *Pool) WaitDurable() { p.behind.wait() }

// Commit commits the file system, so that quota groups' counters include all data that the kernel has written out.
func (p *Pool) Commit() error { return p.commit() }

// commit writes no file data, unlike Sync. Other guests may have much dirty data.
func (p *Pool) commit() error {
	var transaction uint64
	if err := ioctl(p.root, iocStartSync, unsafe.Pointer(&transaction)); err != nil {
		return err
	}
	return ioctl(p.root, iocWaitSync, unsafe.Pointer(&transaction))
}
