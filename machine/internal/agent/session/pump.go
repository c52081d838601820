package session

import (
	"math"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/output"
)

// The largest pipe of an unprivileged process.
const drainBytesMax = 1 << 20

// Open pipes spare background processes a SIGPIPE.
const discardsMax = 2048

// One goroutine with epoll saves a goroutine and a buffer per pipe. It never waits for the disk: it pauses a pipe whose
// queue is full.
type pump struct {
	ep     int
	mu     sync.Mutex
	taps   map[int32]*pipeReader
	silent int
}

// Bytes for a nil queue are dropped.
type pipeReader struct {
	pump   *pump
	mu     sync.Mutex
	fd     int // -1: closed
	queue  *output.Queue
	paused bool // not watched until the queue accepts bytes
	still  bool // not even then: between finish and startLateOutput
	late   bool // after startLateOutput
	left   int  // bytes that may still be kept
	atEnd  bool // no process holds the write end
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

// watch takes over fd, and closes it on failure.
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

// One read per event is fair: epoll reports the rest again.
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

// epoll would report the pipe again and again.
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

// The command's own output ends here; reading stops until startLateOutput. It may wait for the disk, but only for this
// output.
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

// A background process's output is kept for a while and then dropped: SIGPIPE would surprise its user. false: none, or
// too many such pipes.
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
