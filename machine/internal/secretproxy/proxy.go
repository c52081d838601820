package secretproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/egress"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	flowsEach      = 256 // of one machine
	flowsMax       = 8192
	streamsEach    = 32        // of one connection of HTTP/2
	receivedEach   = 256 << 10 // and what it may send ahead of what is read
	dialTimeout    = 15 * time.Second
	headerTimeout  = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	headerBytesMax = 128 << 10 // a secret has up to 64 KiB
)

// Proxy is given connections of machines to ports of their secrets' hosts. It ends TLS of those that name such a host, by the workspace's
// authority, and puts values into the requests in them. All others it passes on as they are.
type Proxy struct {
	roots   *x509.CertPool
	blocked []netip.Prefix
	uid     uint32

	answers      *answers
	certificates certificates
	server       *http.Server
	ended        chan net.Conn // what http.Server is to serve

	// For tests.
	meantFor func(net.Conn) (netip.AddrPort, error)
	dialer   net.Dialer

	mu       sync.Mutex
	machines map[netip.Addr]wire.SecretsOf
	flows    map[netip.Addr]map[*flow]struct{}
	open     int
}

// New believes servers by these roots, and answers by that user.
func New(roots *x509.CertPool, blocked []netip.Prefix, answersUID uint32, machines map[netip.Addr]wire.SecretsOf) *Proxy {
	p := &Proxy{roots: roots, blocked: blocked, uid: answersUID, answers: newAnswers(), certificates: certificates{made: map[[2]string]*tls.Certificate{}},
		ended: make(chan net.Conn), meantFor: meantFor, dialer: net.Dialer{Timeout: dialTimeout}, machines: map[netip.Addr]wire.SecretsOf{},
		flows: map[netip.Addr]map[*flow]struct{}{}}
	for machine, of := range machines {
		p.machines[machine] = of
	}
	p.server = &http.Server{Handler: http.HandlerFunc(p.handle), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytesMax, HTTP2: flowControl(),
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(io.Discard, "", 0), // a guest could fill the log
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, flowKey{}, conn.(*tls.Conn).NetConn())
		}}
	return p
}

// flowControl bounds what one machine can make this process hold, which is everybody's.
func flowControl() *http.HTTP2Config {
	return &http.HTTP2Config{MaxConcurrentStreams: streamsEach, MaxReceiveBufferPerConnection: receivedEach, MaxReceiveBufferPerStream: receivedEach / 4}
}

type flowKey struct{}

// serve returns when the context ends, or one of the listeners does.
func (p *Proxy) serve(ctx context.Context, requests, answers net.Listener, link net.Conn) error {
	ended := make(chan error, 3)
	go p.answers.letGo(ctx)
	go p.listenToHost(link)
	go func() { ended <- p.answers.accept(answers, p.uid) }()
	go func() { ended <- p.server.Serve(chosen{p.ended, requests.Addr()}) }()
	go func() { ended <- p.accept(ctx, requests) }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

// chosen is a listener of what was looked at already.
type chosen struct {
	conns   <-chan net.Conn
	address net.Addr
}

func (c chosen) Accept() (net.Conn, error) { return <-c.conns, nil }
func (c chosen) Close() error              { return nil }
func (c chosen) Addr() net.Addr            { return c.address }

func (p *Proxy) accept(ctx context.Context, requests net.Listener) error {
	for {
		conn, err := requests.Accept()
		if err != nil {
			var failed net.Error
			if errors.As(err, &failed) && failed.Timeout() {
				continue
			}
			return err
		}
		f, err := p.enter(conn)
		if err != nil {
			abort(conn)
			continue
		}
		go p.begin(ctx, f)
	}
}

// enter knows the machine by its address, which the router lets no other use.
func (p *Proxy) enter(conn net.Conn) (*flow, error) {
	from, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return nil, err
	}
	to, err := p.meantFor(conn)
	if err != nil {
		return nil, err
	}
	isBlocked := func(network netip.Prefix) bool { return network.Contains(to.Addr()) }
	if slices.ContainsFunc(p.blocked, isBlocked) {
		return nil, errors.New("no machine reaches that")
	}
	machine := from.Addr().Unmap()
	p.mu.Lock()
	defer p.mu.Unlock()
	of, known := p.machines[machine]
	if !known || p.open >= flowsMax || len(p.flows[machine]) >= flowsEach {
		return nil, errors.New("no machine with secrets, or one with too many connections")
	}
	f := &flow{Conn: conn, machine: machine, of: of, to: to, proxy: p}
	if p.flows[machine] == nil {
		p.flows[machine] = map[*flow]struct{}{}
	}
	p.flows[machine][f] = struct{}{}
	p.open++
	return f, nil
}

func (p *Proxy) leave(f *flow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	delete(p.flows[f.machine], f)
	if len(p.flows[f.machine]) == 0 {
		delete(p.flows, f.machine)
	}
}

// begin looks at how a connection begins, and decides what becomes of it.
func (p *Proxy) begin(ctx context.Context, f *flow) {
	h, err := peek(f.Conn)
	if err != nil {
		f.Close()
		return
	}
	f.begun = h.read
	name, isName := egress.Canonical(h.name)
	if !h.isTLS || !isName {
		p.passOn(ctx, f)
		return
	}
	port := int(f.to.Port())
	said, err := p.answers.of(ctx, f.of)
	switch {
	case err != nil:
		// What never got a secret goes on. Of anything else nobody knows whether it should have one.
		if hosts, known := p.answers.hostsOf(f.of); known && !anyCovers(hosts, name, port) {
			p.passOn(ctx, f)
			return
		}
		abortFlow(f)
	case len(said.placedAt(name, port)) == 0:
		p.passOn(ctx, f)
	default:
		p.end(ctx, f, name, said.Authority)
	}
}

func (p *Proxy) passOn(ctx context.Context, f *flow) {
	defer f.Close()
	onward, err := p.dial(ctx, f)
	if err != nil {
		abort(f.Conn)
		return
	}
	f.pass(onward)
}

func (p *Proxy) dial(ctx context.Context, f *flow) (net.Conn, error) {
	conn, err := p.dialer.DialContext(ctx, "tcp4", f.to.String())
	if err != nil {
		return nil, err
	}
	return f.keep(conn)
}

// end ends the machine's TLS here.
func (p *Proxy) end(ctx context.Context, f *flow, name string, a authority) {
	certificate, err := p.certificates.of(a, name)
	if err != nil {
		abortFlow(f)
		return
	}
	f.name = name
	conn := tls.Server(f, &tls.Config{Certificates: []tls.Certificate{*certificate}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12})
	select {
	case p.ended <- conn:
	case <-ctx.Done():
		f.Close()
	}
}

// abort resets a connection, so that its program learns at once.
func abort(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it is closed in any case
	}
	conn.Close()
}

func abortFlow(f *flow) {
	if tcp, ok := f.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it is closed in any case
	}
	f.Close()
}
