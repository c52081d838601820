package session

import (
	"math"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/output"
)

// The size of the largest pipe that an unprivileged process can make.
const drainBytesMax = 1 << 20

// Up to this number of pipes of background processes remain open, so that these processes get no SIGPIPE.
const discardsMax = 2048

// pump reads all pipes on one goroutine with epoll, instead of one goroutine and buffer per pipe. The goroutine
// never waits for the disk: it pauses a pipe whose queue is full.
type pump struct {
	ep     int
	mu     sync.Mutex
	taps   map[int32]*pipeReader
	silent int
}

// pipeReader reads a pipe into queue, or drops the bytes if queue is nil.
type pipeReader struct {
	pump   *pump
	mu     sync.Mutex
	fd     int // -1: closed
	queue  *output.Queue
	paused bool // not watched until the queue accepts bytes
	still  bool // not watched at all: between finish and startLateOutput
	late   bool // after startLateOutput
	left   int  // bytes that may still be stored
	atEnd  bool // no process has the write end open
	kept   bool // counted in pump.silent
}

func newPump() (*pump, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	p := &pump{ep: ep, taps: map[int32]*pipeReader{}}
	go p.loop()
	return p, nil
}

// watch becomes the owner of fd, and closes fd on failure.
func (p *pump) watch(fd int) (*pipeReader, error) {
	t := &pipeReader{pump: p, fd: fd}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK)
	if err == nil {
		err = p.listen(fd)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	p.taps[int32(fd)] = t
	return t, nil
}

func (p *pump) listen(fd int) error {
	return unix.EpollCtl(p.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

func (t *pipeReader) deliverTo(queue *output.Queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue, t.left = queue, math.MaxInt
}

func (p *pump) loop() {
	events := make([]unix.EpollEvent, 64)
	buffer := make([]byte, 64<<10)
	for {
		n, err := unix.EpollWait(p.ep, events, -1)
		if err != nil {
			continue // EINTR is the only possible error
		}
		for _, e := range events[:n] {
			p.mu.Lock()
			t := p.taps[e.Fd]
			p.mu.Unlock()
			if t != nil {
				t.readOnce(buffer)
			}
		}
		// Let followers run on this thread: EpollWait would hold the processor for a while, and waking another thread
		// is slow.
		runtime.Gosched()
	}
}

// readOnce reads once per event, which is fair to other pipes: epoll reports the rest again.
func (t *pipeReader) readOnce(buffer []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fd < 0 || t.paused {
		return // an event from before the pause
	}
	if t.queue != nil {
		buffer = buffer[:min(len(buffer), t.queue.Capacity(), t.left)]
	}
	if len(buffer) == 0 {
		t.pause()
		return
	}
	n, err := unix.Read(t.fd, buffer)
	switch {
	case n > 0:
		t.keep(buffer[:n])
	case err == unix.EAGAIN || err == unix.EINTR:
	default:
		t.closeLocked()
	}
}

func (t *pipeReader) keep(p []byte) {
	if t.queue == nil {
		return
	}
	t.queue.Put(p)
	if t.late {
		t.left -= len(p)
	}
	if t.left == 0 {
		t.queue = nil
	}
}

// pause removes the pipe from epoll, which would otherwise report it again and again.
func (t *pipeReader) pause() {
	t.paused = true
	if unix.EpollCtl(t.pump.ep, unix.EPOLL_CTL_DEL, t.fd, nil) != nil || !t.queue.OnCapacity(t.goOn) {
		t.goOnLocked()
	}
}

func (t *pipeReader) goOn() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.goOnLocked()
}

func (t *pipeReader) goOnLocked() {
	if t.fd < 0 || !t.paused || t.still {
		return
	}
	t.paused = false
	if err := t.pump.listen(t.fd); err != nil && err != unix.EEXIST {
		t.closeLocked() // the command gets SIGPIPE: its output can no longer be read
	}
}

// finish reads the rest of the command's own output, and stops reading until startLateOutput. It may wait for the
// disk, but only for this output.
func (t *pipeReader) finish(buffer []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	queue := t.queue
	for total := 0; queue != nil && t.fd >= 0 && total < drainBytesMax; {
		room := min(len(buffer), queue.Capacity())
		if room == 0 {
			t.mu.Unlock()
			queue.WaitForRoom()
			t.mu.Lock()
			continue
		}
		n, err := unix.Read(t.fd, buffer[:room])
		if n > 0 {
			queue.Put(buffer[:n])
			total += n
			continue
		}
		if err == unix.EINTR {
			continue
		}
		t.atEnd = err != unix.EAGAIN
		break
	}
	t.queue = nil
	if t.fd >= 0 && !t.atEnd {
		t.stop()
	}
}

func (t *pipeReader) stop() {
	t.still = true
	if !t.paused {
		t.paused = true
		_ = unix.EpollCtl(t.pump.ep, unix.EPOLL_CTL_DEL, t.fd, nil) // on failure readOnce ignores the events
	}
}

// startLateOutput stores a background process's output for a while and then drops it, because a SIGPIPE would
// surprise the user. It returns false if no process has the pipe open, or too many such pipes exist.
func (t *pipeReader) startLateOutput(late *output.Queue) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.still = false
	if t.fd < 0 {
		return false
	}
	if t.kept = !t.atEnd && t.pump.keepSilent(); !t.kept {
		t.closeLocked()
		return false
	}
	t.queue, t.late, t.left = late, true, lateBytesMax
	t.goOnLocked()
	return true
}

func (t *pipeReader) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = nil
	t.goOnLocked()
}

func (t *pipeReader) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = nil
	if t.fd >= 0 {
		t.closeLocked()
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

func (t *pipeReader) closeLocked() {
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
