package proxy

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/ports/door"
	"github.com/berth-dev/berth/machine/internal/ports/question"
)

const (
	pooledOfATarget = 64
	pooledInAll     = 1_024
	pooledFor       = 4 * time.Second // less than the five silent seconds after which many apps close a connection
	dialMax         = 5 * time.Second
	redialMin       = 20 * time.Millisecond
	redialMax       = 400 * time.Millisecond
	bufferBytes     = 4 << 10
)

type upstream struct {
	*patient
	reader *bufio.Reader
	writer *bufio.Writer
	target question.Target
	reused bool
	idleAt time.Time
}

// Pool holds idle connections. A key is one machine in one epoch, so no later machine at the address gets them.
type Pool struct {
	mu    sync.Mutex
	idle  map[question.Target][]*upstream
	count int
}

func NewPool() *Pool { return &Pool{idle: map[question.Target][]*upstream{}} }

func (p *Pool) take(target question.Target) *upstream {
	for {
		found := p.pop(target)
		if found == nil {
			return nil
		}
		if time.Since(found.idleAt) < pooledFor && found.isSilent() {
			found.reused, found.read = true, false
			return found
		}
		found.Close()
	}
}

func (p *Pool) pop(target question.Target) *upstream {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[target]
	if len(list) == 0 {
		return nil
	}
	last := list[len(list)-1]
	if p.idle[target] = list[:len(list)-1]; len(list) == 1 {
		delete(p.idle, target)
	}
	p.count--
	return last
}

func (p *Pool) put(u *upstream) {
	u.idleAt = time.Now()
	p.mu.Lock()
	full := p.count >= pooledInAll || len(p.idle[u.target]) >= pooledOfATarget
	if !full {
		p.idle[u.target] = append(p.idle[u.target], u)
		p.count++
	}
	p.mu.Unlock()
	if full {
		u.Close()
	}
}

func (p *Pool) Drop(workspaceID string) {
	p.dropIf(func(u *upstream) bool { return u.target.WorkspaceID == workspaceID })
}

func (p *Pool) Sweep() {
	p.dropIf(func(u *upstream) bool { return time.Since(u.idleAt) >= pooledFor })
}

func (p *Pool) dropIf(drop func(*upstream) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for target, list := range p.idle {
		kept := list[:0]
		for _, u := range list {
			if drop(u) {
				p.count--
				u.Close()
				continue
			}
			kept = append(kept, u)
		}
		clear(list[len(kept):])
		if p.idle[target] = kept; len(kept) == 0 {
			delete(p.idle, target)
		}
	}
}

// isSilent reports that the app has neither closed the connection nor sent unexpected bytes.
func (u *upstream) isSilent() bool {
	raw, err := u.Conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return false
	}
	silent := false
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		silent = errors.Is(err, unix.EAGAIN)
		return true
	})
	return err == nil && silent
}

// acknowledge sends a TCP acknowledgement at once, which the kernel would delay by 40 ms. Some servers, such as
// Python's, wait for it between head and body.
func (u *upstream) acknowledge() {
	raw, err := u.Conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) })
}

func dial(ctx context.Context, use *question.Use, write time.Duration) (*upstream, *door.Refusal) {
	dialer := net.Dialer{Timeout: dialMax}
	target := use.Target
	address := net.JoinHostPort(target.Address, strconv.Itoa(target.Port))
	why := door.Refuse("app_unreachable")
	app := newWhereabouts(use)
	for pause := redialMin; ; pause = min(2*pause, redialMax) {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			return newUpstream(conn, target, write), nil
		}
		if errors.Is(err, unix.ECONNREFUSED) {
			why = door.Refuse("app_not_listening")
			if elsewhere := app.refused(ctx); elsewhere != nil {
				return nil, elsewhere
			}
		} else if ctx.Err() == nil {
			why = door.Refuse("app_unreachable")
		}
		select {
		case <-ctx.Done():
			return nil, why
		case <-time.After(app.pause(pause)):
		}
	}
}

func newUpstream(conn net.Conn, target question.Target, write time.Duration) *upstream {
	p := newPatient(conn, write)
	return &upstream{patient: p, reader: bufio.NewReaderSize(p, bufferBytes), writer: bufio.NewWriterSize(p, bufferBytes), target: target}
}
