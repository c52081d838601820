package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/door"
)

const (
	acceptPause = 50 * time.Millisecond
	sweepEvery  = time.Second
)

// Server serves one listener.
type Server struct {
	options  Options
	draining atomic.Bool
	tls      *tls.Config
	h2       *h2Side

	mu          sync.Mutex
	connections map[*connection]struct{}
	exchanges   map[*exchange]struct{}
	left        sync.WaitGroup

	ofClient   counted[netip.Addr]
	requestsOf counted[door.Place]
	requestsBy counted[string]
	tally      tally
}

// NewServer is of use once Serve runs.
func NewServer(options Options) *Server {
	s := &Server{options: options, connections: map[*connection]struct{}{}, exchanges: map[*exchange]struct{}{}}
	if options.Certificates != nil {
		s.tls = options.Certificates.config()
		s.h2 = newH2Side(s)
	}
	return s
}

// Serve accepts until the context ends, then waits for what is under way for so long, and ends the rest.
func (s *Server) Serve(ctx context.Context, listener net.Listener, drain time.Duration) error {
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	go s.sweep(ctx)
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			s.drain(drain)
			s.tell()
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // no more files, most likely: some come back
			s.options.Log.Warn("a connection could not be accepted", "error", err)
			time.Sleep(acceptPause)
		default:
			s.welcome(conn)
		}
	}
}

func (s *Server) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.options.Pool.Sweep()
			s.tell()
		}
	}
}

// welcome begins with a connection, or ends it at once where there are too many: a refusal would be one more.
func (s *Server) welcome(conn net.Conn) {
	address := addressOf(conn)
	trusted := s.trusts(address)
	bound := s.options.Bounds.ConnectionsOfAClient
	if trusted {
		bound = s.options.Bounds.Connections
	}
	group := clientGroup(address)
	if !s.ofClient.add(group, bound) {
		s.tally.turnAway()
		conn.Close()
		return
	}
	c := newConnection(s, conn, address, trusted)
	s.mu.Lock()
	full := len(s.connections) >= s.options.Bounds.Connections
	if !full {
		s.connections[c] = struct{}{}
		s.left.Add(1)
	}
	s.mu.Unlock()
	if full {
		s.tally.turnAway()
		s.ofClient.remove(group)
		conn.Close()
		return
	}
	go func() {
		defer s.farewell(c, group)
		c.serve()
	}()
}

func (s *Server) farewell(c *connection, group netip.Addr) {
	s.mu.Lock()
	delete(s.connections, c)
	s.mu.Unlock()
	s.ofClient.remove(group)
	s.left.Done()
}

// drain lets requests end. Connections between two requests end at once, what is not over in time is cut.
func (s *Server) drain(within time.Duration) {
	s.draining.Store(true)
	s.mu.Lock()
	for c := range s.connections {
		c.rest()
	}
	s.mu.Unlock()
	if s.h2 != nil {
		go s.h2.drain(within)
	}
	done := make(chan struct{})
	go func() {
		s.left.Wait()
		close(done)
	}()
	for _, last := range []func(){s.cutAll, s.killAll} {
		select {
		case <-done:
			return
		case <-time.After(within):
			last()
			within = time.Second
		}
	}
}

func (s *Server) cutAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.exchanges {
		go e.farewell()
	}
}

func (s *Server) killAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.connections {
		c.raw.Close()
	}
}

func (s *Server) trusts(address netip.Addr) bool {
	for _, prefix := range s.options.Trusted {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

func addressOf(conn net.Conn) netip.Addr {
	if address, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return address.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// clientGroup: whoever has one IPv6 address has 2^64 of them.
func clientGroup(address netip.Addr) netip.Addr {
	if address.Is4() || !address.IsValid() {
		return address
	}
	prefix, err := address.Prefix(64)
	if err != nil {
		return address
	}
	return prefix.Addr()
}
