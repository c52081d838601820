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
)

const (
	acceptPause = 50 * time.Millisecond
	sweepEvery  = time.Second
)

type Server struct {
	options  Options
	draining atomic.Bool
	tls      *tls.Config
	h2       *h2Side

	lobby lobby
	left  sync.WaitGroup

	requestsBy counted[netip.Addr]
	strangers  fair[netip.Addr] // requests whose credential is unchecked, by client
	workspaces fair[string]     // requests with an accepted credential, by host id
	tally      tally
}

func NewServer(options Options) *Server {
	s := &Server{options: options}
	if options.Certificates != nil {
		s.tls = options.Certificates.config()
		s.h2 = newH2Side(s)
	}
	return s
}

// Serve accepts connections until the context ends. Then it waits up to drain for open requests, and cuts the rest.
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
		case err != nil: // most likely the process has no file descriptors left
			s.options.Log.Warn("a connection could not be accepted", "error", err)
			s.lobby.spare()
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

// welcome closes a connection above the limit at once: an answer would need the resources of a connection.
func (s *Server) welcome(conn net.Conn) {
	address := addressOf(conn)
	trusted := s.trusts(address)
	each := s.options.Bounds.ConnectionsOfAClient
	if trusted {
		each = s.options.Bounds.Connections
	}
	c := newConnection(s, conn, address, trusted)
	if !s.lobby.enter(c, each, s.options.Bounds.Connections) {
		s.tally.turnAway()
		conn.Close()
		return
	}
	s.left.Add(1)
	go func() {
		defer s.left.Done()
		defer s.lobby.leave(c)
		c.serve()
	}()
}

func (s *Server) drain(within time.Duration) {
	s.draining.Store(true)
	s.lobby.each((*connection).rest)
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
	for _, e := range append(s.strangers.all(), s.workspaces.all()...) {
		go e.farewell()
	}
}

func (s *Server) killAll() {
	s.lobby.each(func(c *connection) { c.raw.Close() })
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
