package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/door"
	"github.com/berth-dev/berth/machine/internal/ports/httpwire"
)

const lingerBytes = 8 << 20

type connection struct {
	server  *Server
	raw     net.Conn
	conn    *patient
	reader  *bufio.Reader
	writer  *bufio.Writer
	address netip.Addr
	trusted bool // the connection comes from a trusted proxy
	seat    seat
	began   atomic.Bool

	mu      sync.Mutex
	resting bool // between two requests
}

func newConnection(s *Server, raw net.Conn, address netip.Addr, trusted bool) *connection {
	return &connection{server: s, raw: raw, address: address, trusted: trusted, seat: seat{group: door.ClientGroup(address)}}
}

func (c *connection) serve() {
	defer c.raw.Close()
	conn := c.raw
	if c.server.tls != nil {
		secured, ok := c.handshake()
		if !ok {
			return
		}
		conn = secured
	}
	c.conn = newPatient(conn, c.server.options.Times.Write)
	c.reader = bufio.NewReaderSize(c.conn, bufferBytes)
	c.writer = bufio.NewWriterSize(c.conn, bufferBytes)
	for c.next() {
	}
	if secured, ok := conn.(*tls.Conn); ok {
		_ = secured.SetDeadline(time.Now().Add(time.Second))
		_ = secured.Close()
	}
}

// handshake serves HTTP/2 to its end, which also gives false: no HTTP/1.1 follows on this connection.
func (c *connection) handshake() (*tls.Conn, bool) {
	secured := tls.Server(&owned{Conn: c.raw, of: c, done: make(chan struct{})}, c.server.tls)
	ctx, cancel := context.WithTimeout(context.Background(), c.server.options.Times.Head)
	defer cancel()
	if secured.HandshakeContext(ctx) != nil {
		return nil, false
	}
	if secured.ConnectionState().NegotiatedProtocol == "h2" {
		first := time.AfterFunc(c.server.options.Times.First, func() {
			if !c.began.Load() {
				c.raw.Close()
			}
		})
		defer first.Stop()
		c.server.h2.serve(secured)
		return nil, false
	}
	return secured, true
}

func (c *connection) next() bool {
	c.conn.readWithin(0)
	if !c.awaitRequest() {
		return false
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(c.server.options.Times.Head))
	request, err := httpwire.ReadRequest(c.reader)
	_ = c.conn.SetReadDeadline(time.Time{})
	if err != nil {
		c.refuseHead(err)
		return false
	}
	v := newPlain(c.conn, c.raw, c.reader, c.writer, request)
	refusal := c.handle(context.Background(), request, v)
	if refusal != nil && !v.started() {
		v.forget()
		c.server.writeRefusal(v, request, refusal, request.Close || !v.source.Ended())
	}
	if v.ended.Load() || request.Close || !v.source.Ended() {
		c.linger()
		return false
	}
	return !c.server.draining.Load()
}

func (c *connection) handle(ctx context.Context, request *httpwire.Request, v visitor) *door.Refusal {
	c.began.Store(true)
	c.server.lobby.begin(c)
	defer c.server.lobby.end(c)
	return c.server.handle(ctx, request, v, c.public(request))
}

func (c *connection) awaitRequest() bool {
	c.mu.Lock()
	c.resting = true
	c.mu.Unlock()
	if c.server.draining.Load() {
		return false
	}
	patience := c.server.options.Times.KeepAlive
	if !c.began.Load() {
		patience = c.server.options.Times.First
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(patience))
	_, err := c.reader.Peek(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resting = false
	return err == nil
}

func (c *connection) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resting {
		c.raw.Close()
	}
}

// refuseHead answers an invalid head. The start of the next request is unknown, so the connection must end.
func (c *connection) refuseHead(err error) {
	var problem *httpwire.Problem
	refusal := door.Refuse("request_timeout")
	switch {
	case errors.As(err, &problem):
		refusal = refusalOfHead(err)
	case !isTimeout(err):
		return // the connection has ended, so no answer is possible
	}
	request := &httpwire.Request{Method: http.MethodGet, Minor: 1}
	c.server.writeRefusal(newPlain(c.conn, c.raw, c.reader, c.writer, request), request, refusal, true)
	c.linger()
}

// linger reads and discards the rest. A close with unread bytes would reset the connection, and the visitor would lose
// the last answer.
func (c *connection) linger() {
	half, ok := c.conn.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(c.server.options.Times.Linger))
	_, _ = io.CopyN(io.Discard, c.reader, lingerBytes)
}

func (c *connection) public(request *httpwire.Request) door.Public {
	public := door.Public{Scheme: c.server.options.Scheme, Client: c.address}
	if c.trusted {
		public.Client = c.server.clientBehind(request.Fields, public.Client)
	}
	return public
}

// clientBehind returns the visitor's address: the last in X-Forwarded-For that is not a trusted proxy's.
func (s *Server) clientBehind(fields httpwire.Fields, nearest netip.Addr) netip.Addr {
	var hops []string
	for _, field := range fields {
		if field.Known == httpwire.XForwardedFor && !field.Twisted {
			hops = append(hops, strings.Split(field.Value, ",")...)
		}
	}
	for i := len(hops) - 1; i >= 0; i-- {
		address, err := netip.ParseAddr(strings.Trim(hops[i], " \t"))
		if err != nil {
			return nearest
		}
		if nearest = address.Unmap(); !s.trusts(nearest) {
			return nearest
		}
	}
	return nearest
}
