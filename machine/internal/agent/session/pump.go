package session

import (
	"sync"

	"golang.org/x/sys/unix"
)

// drainBytesMax bounds what is read after a leader's end: the largest pipe a process without privilege can ask for.
const drainBytesMax = 1 << 20

// discardsMax bounds the pipes that are only read to keep a background process from SIGPIPE.
const discardsMax = 2048

// pump reads all pipes of all commands on one goroutine that sleeps in epoll: no goroutine and no buffer for each.
type pump struct {
	ep     int
	mu     sync.Mutex
	taps   map[int32]*tap
	silent int
}

// tap is the agent's end of one pipe. sink is nil once the session has ended: then bytes are read and dropped.
type tap struct {
	pump *pump
	mu   sync.Mutex
	fd   int // -1 when closed
	sink func(p []byte)
	kept bool // counted in pump.silent
}

func newPump() (*pump, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	p := &pump{ep: ep, taps: map[int32]*tap{}}
	go p.loop()
	return p, nil
}

// watch takes over fd, the read end of a pipe, which does not block.
func (p *pump) watch(fd int, sink func([]byte)) (*tap, error) {
	t := &tap{pump: p, fd: fd, sink: sink}
	p.mu.Lock()
	defer p.mu.Unlock()
	err := unix.EpollCtl(p.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	if err == nil {
		p.taps[int32(fd)] = t
	}
	return t, err
}

func (p *pump) loop() {
	events := make([]unix.EpollEvent, 64)
	buffer := make([]byte, 64<<10)
	for {
		n, err := unix.EpollWait(p.ep, events, -1)
		if err != nil {
			continue // EINTR: there is no other way for it to fail
		}
		for _, e := range events[:n] {
			p.mu.Lock()
			t := p.taps[e.Fd]
			p.mu.Unlock()
			if t != nil {
				t.readOnce(buffer)
			}
		}
	}
}

// readOnce moves what one read gives. One read a turn is fair to the others: epoll tells again.
func (t *tap) readOnce(buffer []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fd < 0 {
		return
	}
	n, err := unix.Read(t.fd, buffer)
	switch {
	case n > 0:
		t.deliver(buffer[:n])
	case err == unix.EAGAIN || err == unix.EINTR:
	default:
		t.closeLocked()
	}
}

func (t *tap) deliver(p []byte) {
	if t.sink != nil {
		t.sink(p)
	}
}

// finish takes what is in the pipe now, and no more of it ever. A background process may keep the other end open: its
// bytes are dropped from here on, since ending it by SIGPIPE would surprise whoever started it.
func (t *tap) finish(buffer []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for total := 0; t.fd >= 0 && total < drainBytesMax; {
		n, err := unix.Read(t.fd, buffer)
		if n > 0 {
			t.deliver(buffer[:n])
			total += n
			continue
		}
		if err == unix.EINTR {
			continue
		}
		if err != unix.EAGAIN {
			t.closeLocked()
		}
		break
	}
	t.sink = nil
	if t.fd >= 0 {
		if t.kept = t.pump.keepSilent(); !t.kept {
			t.closeLocked()
		}
	}
}

func (p *pump) keepSilent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent >= discardsMax {
		return false
	}
	p.silent++
	return true
}

func (t *tap) closeLocked() {
	p := t.pump
	p.mu.Lock()
	delete(p.taps, int32(t.fd))
	if t.kept {
		p.silent--
	}
	p.mu.Unlock()
	unix.Close(t.fd)
	t.fd = -1
}
