package secretproxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// flow is one connection of a machine.
type flow struct {
	net.Conn
	machine netip.Addr
	of      wire.SecretsOf
	to      netip.AddrPort // where the machine meant to connect
	begun   []byte         // what was read of it and is to be read again

	proxy     *Proxy
	name      string // of the host, where it is one that gets secrets
	transport *http.Transport

	mu     sync.Mutex
	closed bool
	onward map[net.Conn]struct{} // to the server
}

func (f *flow) Read(p []byte) (int, error) {
	if len(f.begun) > 0 {
		n := copy(p, f.begun)
		f.begun = f.begun[n:]
		return n, nil
	}
	return f.Conn.Read(p)
}

// Close ends the connections to the server, too.
func (f *flow) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	onward := f.onward
	f.onward = nil
	f.mu.Unlock()
	f.proxy.leave(f)
	err := f.Conn.Close()
	for conn := range onward {
		conn.Close()
	}
	if f.transport != nil {
		f.transport.CloseIdleConnections()
	}
	return err
}

// keep closes a connection with the flow, and at once where that is over.
func (f *flow) keep(conn net.Conn) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	if f.onward == nil {
		f.onward = map[net.Conn]struct{}{}
	}
	kept := &keptConn{Conn: conn, flow: f}
	f.onward[kept] = struct{}{}
	return kept, nil
}

type keptConn struct {
	net.Conn
	flow *flow
}

func (c *keptConn) Close() error {
	c.flow.mu.Lock()
	delete(c.flow.onward, c)
	c.flow.mu.Unlock()
	return c.Conn.Close()
}

// pass carries bytes both ways as they are, until both have ended.
func (f *flow) pass(onward net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(onlyWriter{onward}, onlyReader{f}) // whoever ends it says nothing to anybody
		closeWrite(onward)
	}()
	_, _ = io.Copy(onlyWriter{f}, onlyReader{onward})
	closeWrite(f.Conn)
	<-done
}

// The kernel's way of copying from socket to socket is a call that this process does not have.
type onlyWriter struct{ io.Writer }
type onlyReader struct{ io.Reader }

func closeWrite(conn net.Conn) {
	if kept, ok := conn.(*keptConn); ok {
		conn = kept.Conn
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it is over already
	}
}

// meantFor is where a connection was to go before the router led it here.
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
