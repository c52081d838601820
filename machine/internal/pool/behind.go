package pool

import (
	"log/slog"
	"sync"
	"time"
	"unsafe"
)

// behind makes durable what callers were told of before it was: nobody waits for it, one commit runs at a time, and all who asked
// before it began share it.
type behind struct {
	commit func() error
	delay  time.Duration

	mu     sync.Mutex
	wanted bool          // by somebody for whom the commit that runs may have come too early
	idle   chan struct{} // closed when nobody wants anything any more; nil when that is so
}

// commitDelay lets those who were told get on first: a commit takes 2-9 ms, in which whatever else is written to the drive waits. It
// also bounds how often there is one.
const commitDelay = 200 * time.Millisecond

// soon returns at once.
func (b *behind) soon() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wanted = true
	if b.idle == nil {
		b.idle = make(chan struct{})
		go b.run()
	}
}

func (b *behind) run() {
	for b.isWanted() {
		time.Sleep(b.delay)
		b.begin()
		if err := b.commit(); err != nil { // a btrfs that cannot commit writes nothing more, and everybody who tries is told
			slog.Error("new disks are not durable", "error", err)
		}
	}
}

func (b *behind) isWanted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.wanted {
		close(b.idle)
		b.idle = nil
	}
	return b.wanted
}

func (b *behind) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wanted = false
}

// wait returns when all that was asked for is done.
func (b *behind) wait() {
	b.mu.Lock()
	idle := b.idle
	b.mu.Unlock()
	if idle != nil {
		<-idle
	}
}

// WaitDurable returns when every disk that CreateDisk made is durable.
func (p *Pool) WaitDurable() { p.behind.wait() }

// Commit makes the counters of quota groups true of everything that the kernel has written out so far.
func (p *Pool) Commit() error { return p.commit() }

// commit makes what was made so far durable. Unlike Sync it leaves the data of files alone, which others' guests may have much of.
func (p *Pool) commit() error {
	var transaction uint64
	if err := ioctl(p.root, iocStartSync, unsafe.Pointer(&transaction)); err != nil {
		return err
	}
	return ioctl(p.root, iocWaitSync, unsafe.Pointer(&transaction))
}
