package server

import (
	"context"
	"log"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// Listen avoids SO_REUSEADDR: a guest process could bind the port at one address and impersonate the agent.
func Listen(address string) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 0)
		})
		if err != nil {
			return err
		}
		return failed
	}}
	return config.Listen(context.Background(), "tcp4", address)
}

// outside closes connections from the machine itself, because the guest's processes share the agent's network.
type outside struct {
	net.Listener
	allowLocal bool // for unit tests, which can only call from here
}

func (l outside) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || l.allowLocal || !isLocal(conn.RemoteAddr()) {
			return conn, err
		}
		conn.Close()
	}
}

// The list may change while it is read, so an error is followed by another try.
func ownAddresses() (own []net.Addr, err error) {
	for range 5 {
		if own, err = net.InterfaceAddrs(); err == nil {
			return own, nil
		}
	}
	return nil, err
}

func isLocal(peer net.Addr) bool {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return true
	}
	from := tcp.AddrPort().Addr().Unmap()
	if from.IsLoopback() || from.IsUnspecified() {
		return true
	}
	// A restore changes the machine's address, so the addresses are read for each connection. Connections are reused,
	// so reads are rare.
	own, err := ownAddresses()
	if err != nil {
		log.Printf("a caller is refused, since the machine's own addresses cannot be read: %v", err)
		return true
	}
	for _, a := range own {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Unmap() == from {
			return true
		}
	}
	return false
}
