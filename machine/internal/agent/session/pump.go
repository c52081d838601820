package session

import (
	"math"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/output"
)

// drainBytesMax bounds what is read after a leader's end: the largest pipe a process without privilege can ask for.
const drainBytesMax = 1 << 20

// discardsMax bounds the pipes that are only read to keep a background process from SIGPIPE.
const discardsMax = 2048

// pump reads all pipes of all commands on one goroutine that sleeps in epoll: no goroutine and no buffer for each. It never waits for the
// disk: a pipe is not read while enough of it waits to be written.
type pump struct {
	ep     int
	mu     sync.Mutex
	taps   map[int32]*tap
	silent int
}

// tap is the agent's end of one pipe. queue is nil before there is a session, and once nothing is kept any more: then bytes are read and
// dropped.
type tap struct {
	pump   *pump
	mu     sync.Mutex
	fd     int // -1 when closed
	queue  *output.Queue
	paused bool // not watched, until the queue has room
	still  bool // nor then: between finish and letGo
	late   bool // after letGo
	left   int  // how many more bytes are kept
	atEnd  bool // nobody holds the other end
	kept   bool // counted in pump.silent
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

// watch takes over fd, the read end of a pipe. Where that fails, it is closed.
func (p *pump) watch(fd int) (*tap, error) {
	t := &tap{pump: p, fd: fd}
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

func (t *tap) deliverTo(queue *output.Queue) {
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
		// Who follows goes first, on this thread: the wait below would keep its processor for a while, and another would have to be woken.
		runtime.Gosched()
	}
}

// readOnce moves what one read gives. One read a turn is fair to the others: epoll tells again.
func (t *tap) readOnce(buffer []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fd < 0 || t.paused {
		return // it was told of before
	}
	if t.queue != nil {
		buffer = buffer[:min(len(buffer), t.queue.Room(), t.left)]
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

func (t *tap) keep(p []byte) {
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

// pause ends the watching until there is room: a pipe that is full, or at its end, would be told of again and again.
func (t *tap) pause() {
	t.paused = true
	if unix.EpollCtl(t.pump.ep, unix.EPOLL_CTL_DEL, t.fd, nil) != nil || !t.queue.OnRoom(t.goOn) {
		t.goOnLocked()
	}
}

func (t *tap) goOn() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.goOnLocked()
}

func (t *tap) goOnLocked() {
	if t.fd < 0 || !t.paused || t.still {
		return
	}
	t.paused = false
	if err := t.pump.listen(t.fd); err != nil && err != unix.EEXIST {
		t.closeLocked() // the command hears of it by SIGPIPE: nobody would read it any more
	}
}

// finish takes what is in the pipe now, and no more of it until letGo: what the command itself wrote has an end. It waits for the disk
// where that is behind, and so only for the output of this command.
func (t *tap) finish(buffer []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	queue := t.queue
	for total := 0; queue != nil && t.fd >= 0 && total < drainBytesMax; {
		room := min(len(buffer), queue.Room())
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

// stop has nothing read until letGo.
func (t *tap) stop() {
	t.still = true
	if !t.paused {
		t.paused = true
		_ = unix.EpollCtl(t.pump.ep, unix.EPOLL_CTL_DEL, t.fd, nil) // where it fails, readOnce is told in vain
	}
}

// letGo comes after finish. A background process may keep the other end open: its bytes are kept for a while, and dropped after that,
// since ending it by SIGPIPE would surprise whoever started it. false: nobody has the other end, or too many such pipes are open.
func (t *tap) letGo(late *output.Queue) bool {
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

// drop ends the keeping.
func (t *tap) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = nil
	t.goOnLocked()
}

// close lets go of a pipe that no command has.
func (t *tap) close() {
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
