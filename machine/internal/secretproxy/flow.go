package secretproxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

type flow struct {
	net.Conn
	machine netip.Addr
	of      wire.SecretsOf
	to      netip.AddrPort // the machine's original destination
	begun   []byte         // bytes that were read to find the protocol, and must be read again

	proxy     *Proxy
	name      string // the host's name, if it gets secrets
	transport *http.Transport
	turns     chan struct{} // permits for concurrent requests to the server; one until the server's protocol is known
	widened   sync.Once

	used atomic.Int64 // time of the last transfer

	mu     sync.Mutex
	closed bool
	onward map[net.Conn]struct{}
}

func (f *flow) Read(p []byte) (int, error) {
	f.used.Store(time.Now().UnixNano())
	if len(f.begun) > 0 {
		n := copy(p, f.begun)
		if f.begun = f.begun[n:]; len(f.begun) == 0 {
			f.begun = nil
		}
		return n, nil
	}
	return f.Conn.Read(p)
}

func (f *flow) Write(p []byte) (int, error) {
	f.used.Store(time.Now().UnixNano())
	return f.Conn.Write(p)
}

// awaitTurn waits for a permit. Values are fetched afterwards, so that none gets outdated during the wait.
func (f *flow) awaitTurn(ctx context.Context) (end func(), ok bool) {
	wait := time.NewTimer(turnTimeout)
	defer wait.Stop()
	select {
	case <-f.turns:
		return func() { f.turns <- struct{}{} }, true
	case <-wait.C:
	case <-ctx.Done():
	}
	return nil, false
}

// widen adds permits when the protocol is known. HTTP/2 requests share a server connection; each HTTP/1.1 request needs
// a separate one.
func (f *flow) widen(turns int) {
	f.widened.Do(func() {
		for range turns - 1 {
			f.turns <- struct{}{}
		}
	})
}

func (f *flow) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	onward := f.onward
	f.onward = nil
	transport := f.transport
	f.mu.Unlock()
	f.proxy.budget.leave(f)
	err := f.Conn.Close()
	for conn := range onward {
		conn.Close()
	}
	if transport != nil {
		transport.CloseIdleConnections()
	}
	return err
}

// keep records a server connection, so that Close closes it. `release` runs when it is closed.
func (f *flow) keep(conn net.Conn, release func()) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		conn.Close()
		release()
		return nil, net.ErrClosed
	}
	if f.onward == nil {
		f.onward = map[net.Conn]struct{}{}
	}
	kept := &keptConn{Conn: conn, flow: f, release: sync.OnceFunc(release)}
	f.onward[kept] = struct{}{}
	return kept, nil
}

type keptConn struct {
	net.Conn
	flow    *flow
	release func()
}

func (c *keptConn) Close() error {
	c.flow.mu.Lock()
	delete(c.flow.onward, c)
	c.flow.mu.Unlock()
	c.release()
	return c.Conn.Close()
}

func (f *flow) pass(onward net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		copyAll(onward, f)
		closeWrite(onward)
	}()
	copyAll(f, onward)
	closeWrite(f.Conn)
	<-done
}

func copyAll(to io.Writer, from io.Reader) {
	buffer := buffers.Get()
	defer buffers.Put(buffer)
	_, _ = io.CopyBuffer(onlyWriter{to}, onlyReader{from}, buffer) // either end may close; the other end notices that
}

var buffers = bufferPool{sync.Pool{New: func() any { return new([bufferBytes]byte) }}}

type bufferPool struct{ pool sync.Pool }

func (b *bufferPool) Get() []byte       { return b.pool.Get().(*[bufferBytes]byte)[:] }
func (b *bufferPool) Put(buffer []byte) { b.pool.Put((*[bufferBytes]byte)(buffer)) }

// These types hide io.ReaderFrom and io.WriterTo, which would splice. This process is not permitted to splice.
type onlyWriter struct{ io.Writer }
type onlyReader struct{ io.Reader }

func closeWrite(conn net.Conn) {
	if kept, ok := conn.(*keptConn); ok {
		conn = kept.Conn
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // an error is ignored: the connection may be closed already
	}
}

// meantFor returns the destination that the connection had before the router redirected it.
func meantFor(conn net.Conn) (to netip.AddrPort, err error) {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return to, errors.New("not a connection of the kernel's")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return to, err
	}
	var address unix.RawSockaddrInet4
	var failed error
	err = raw.Control(func(fd uintptr) {
		size := uint32(unsafe.Sizeof(address))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_IP, unix.SO_ORIGINAL_DST, uintptr(unsafe.Pointer(&address)), uintptr(unsafe.Pointer(&size)), 0)
		if errno != 0 {
			failed = errno
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return to, err
	}
	port := *(*[2]byte)(unsafe.Pointer(&address.Port))
	return netip.AddrPortFrom(netip.AddrFrom4(address.Addr), uint16(port[0])<<8|uint16(port[1])), nil
}
