package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/door"
	"github.com/berth-dev/berth/machine/internal/ports/httpwire"
)

// h2Side serves HTTP/2 by the standard library, because lengths and ends are unambiguous in HTTP/2.
type h2Side struct {
	server *Server
	http   *http.Server
	queue  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

const (
	h2StreamsMax   = 128
	h2ReceiveBytes = 128 << 10 // limit of received but unread bytes on one connection
)

type connectionKey struct{}

type owned struct {
	net.Conn
	of   *connection
	done chan struct{}
	once sync.Once
}

func (o *owned) Close() error {
	o.once.Do(func() { close(o.done) })
	return o.Conn.Close()
}

func newH2Side(s *Server) *h2Side {
	h := &h2Side{server: s, queue: make(chan net.Conn), closed: make(chan struct{})}
	h.http = &http.Server{
		Handler:           h,
		MaxHeaderBytes:    httpwire.RequestHeadMax,
		IdleTimeout:       s.options.Times.KeepAlive,
		ReadHeaderTimeout: s.options.Times.Head,
		ErrorLog:          log.New(io.Discard, "", 0), // errors of visitors are not logged
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: h2StreamsMax, WriteByteTimeout: s.options.Times.Write,
			MaxReceiveBufferPerConnection: h2ReceiveBytes, MaxReceiveBufferPerStream: h2ReceiveBytes,
		},
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, conn.(*tls.Conn).NetConn().(*owned).of)
		},
	}
	go func() { _ = h.http.Serve(h) }()
	return h
}

func (h *h2Side) serve(conn *tls.Conn) {
	select {
	case h.queue <- conn:
		<-conn.NetConn().(*owned).done
	case <-h.closed:
	}
}

func (h *h2Side) Accept() (net.Conn, error) {
	select {
	case conn := <-h.queue:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *h2Side) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *h2Side) Addr() net.Addr { return &net.TCPAddr{} }

func (h *h2Side) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := r.Context().Value(connectionKey{}).(*connection)
	request, err := h2Request(r)
	v := newH2Visitor(w, r)
	var refusal *door.Refusal
	if err != nil {
		refusal = refusalOfHead(err)
	} else {
		refusal = c.handle(r.Context(), request, v)
	}
	if refusal != nil && !v.started() {
		v.forget()
		h.server.writeRefusal(v, request, refusal, false)
	}
	if v.killed.Load() {
		panic(http.ErrAbortHandler)
	}
}

func h2Request(r *http.Request) (*httpwire.Request, error) {
	fields := httpwire.Fields{httpwire.MakeField("Host", r.Host)}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		for _, value := range r.Header[name] {
			if field := httpwire.MakeField(name, value); field.Known != httpwire.Expect && field.Known != httpwire.Host {
				fields = append(fields, field) // the library answers Expect by itself; Host is set above
			}
		}
	}
	request := &httpwire.Request{Method: r.Method, Target: r.RequestURI, Minor: 1, Fields: fields, Host: r.Host}
	switch {
	case r.ContentLength > 0:
		request.Framing = httpwire.Framing{Kind: httpwire.FixedBody, Length: r.ContentLength}
	case r.ContentLength < 0:
		request.Framing = httpwire.Framing{Kind: httpwire.ChunkedBody}
	}
	return request, request.Check()
}

func refusalOfHead(err error) *door.Refusal {
	var problem *httpwire.Problem
	if errors.As(err, &problem) {
		return &door.Refusal{Status: problem.Status, Reason: problem.Reason, Message: problem.Message}
	}
	return door.Refuse("bad_request")
}

func (h *h2Side) drain(within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	_ = h.http.Shutdown(ctx)
}
