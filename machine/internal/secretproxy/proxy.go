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

	"github.com/berth-dev/berth/machine/internal/accepting"
	"github.com/berth-dev/berth/machine/internal/egress"
	"github.com/berth-dev/berth/machine/internal/fairshare"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	streamsEach      = 32       // concurrent streams of one HTTP/2 connection
	plainEach        = 16       // HTTP/1.1 server connections for the requests of one HTTP/2 connection
	receivedEach     = 64 << 10 // unread data of such a connection
	bufferBytes      = 16 << 10
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	turnTimeout      = 30 * time.Second
	headerTimeout    = 30 * time.Second
	idleTimeout      = 2 * time.Minute
	headerBytesMax   = 32 << 10  // maximum of a head as a machine or a server writes it; a placeholder is short
	headerFieldsMax  = 256       // limited because a field costs more memory than its text
	sentBytesMax     = 128 << 10 // maximum of a head with values, each up to 64 KiB
	trackedSeconds   = 120       // for this long after its end, the kernel tracks a connection
	trackedEach      = 1024      // server connections of one machine, including those that ended within trackedSeconds
	trackedLeast     = 32
	trackedTogether  = 8192 // default if hostd sends no value
)

// Proxy terminates TLS for hosts that get secrets, with a certificate of the workspace's authority. It passes other
// connections on unchanged.
type Proxy struct {
	roots   *x509.CertPool
	blocked []netip.Prefix
	uid     uint32

	answers      *answers
	certificates certificates
	budget       *budget
	ongoing      ongoing
	tracked      *fairshare.Shares[netip.Addr]
	server       *http.Server
	ended        chan net.Conn // connections whose TLS was terminated, for http.Server

	// These fields are replaced in tests.
	meantFor     func(net.Conn) (netip.AddrPort, error)
	dialer       net.Dialer
	handshake    time.Duration
	ongoingEvery time.Duration

	mu       sync.Mutex
	machines map[netip.Addr]wire.SecretsOf
}

// New trusts servers by these roots. It accepts answers only from the user answersUID.
func New(roots *x509.CertPool, blocked []netip.Prefix, answersUID uint32, machines map[netip.Addr]wire.SecretsOf) *Proxy {
	p := &Proxy{roots: roots, blocked: blocked, uid: answersUID, answers: newAnswers(), certificates: certificates{made: map[[2]string]*tls.Certificate{}},
		budget: newBudget(), tracked: &fairshare.Shares[netip.Addr]{Each: trackedEach, Least: trackedLeast, Together: trackedTogether},
		ended: make(chan net.Conn), meantFor: meantFor, dialer: net.Dialer{Timeout: dialTimeout}, handshake: handshakeTimeout, ongoingEvery: ongoingEvery,
		ongoing: ongoing{requests: map[*lasting]struct{}{}}, machines: map[netip.Addr]wire.SecretsOf{}}
	for machine, of := range machines {
		p.machines[machine] = of
	}
	p.server = &http.Server{Handler: http.HandlerFunc(p.handle), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytesMax, HTTP2: flowControl(),
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(io.Discard, "", 0), // not logged, because a guest could fill the log
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			if h, ok := conn.(*headConn); ok {
				return context.WithValue(context.WithValue(ctx, flowKey{}, h.NetConn()), headKey{}, h)
			}
			return context.WithValue(ctx, flowKey{}, conn.(*tls.Conn).NetConn())
		}}
	return p
}

// flowControl limits HTTP/2, so that no machine fills the memory of this shared process.
func flowControl() *http.HTTP2Config {
	return &http.HTTP2Config{MaxConcurrentStreams: streamsEach, MaxReceiveBufferPerConnection: receivedEach, MaxReceiveBufferPerStream: receivedEach}
}

type flowKey struct{}

func (p *Proxy) serve(ctx context.Context, requests, answers net.Listener, link net.Conn) error {
	ended := make(chan error, 3)
	go every(ctx, answerForgotten, p.answers.letGo)
	go every(ctx, socketsEvery, p.cutSockets)
	go every(ctx, p.ongoingEvery, func() { p.endUnbound(ctx) })
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

func every(ctx context.Context, interval time.Duration, work func()) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			work()
		}
	}
}

type chosen struct {
	conns   <-chan net.Conn
	address net.Addr
}

func (c chosen) Accept() (net.Conn, error) { return <-c.conns, nil }
func (c chosen) Close() error              { return nil }
func (c chosen) Addr() net.Addr            { return c.address }

func (p *Proxy) accept(ctx context.Context, requests net.Listener) error {
	for {
		conn, err := accepting.Next(requests)
		if err != nil {
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

// enter identifies the machine by its address, which is safe because the router drops packets with any other source.
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
	f := &flow{Conn: conn, machine: machine, of: of, to: to, proxy: p}
	f.used.Store(time.Now().UnixNano())
	if !known || !p.budget.take(f, load{connections: 1}) { // under the lock, because a change of the machine cuts all connections that entered before
		return nil, errors.New("no machine with secrets, or one with too many connections")
	}
	return f, nil
}

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
		// The connection is passed on only if the last known hosts do not include this one. Otherwise it might need a
		// secret that is unknown now.
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
	onward, err := p.dial(ctx, f, func() {})
	if err != nil {
		abort(f.Conn)
		return
	}
	f.pass(onward)
}

var errTooMuch = errors.New("the machine has too much at a time")

func (p *Proxy) dial(ctx context.Context, f *flow, release func()) (net.Conn, error) {
	if !p.tracked.Take(f.machine) {
		release()
		return nil, errTooMuch
	}
	over := func() {
		release()
		time.AfterFunc(trackedSeconds*time.Second, func() { p.tracked.Give(f.machine) })
	}
	conn, err := p.dialer.DialContext(ctx, "tcp4", f.to.String())
	if err != nil {
		over()
		return nil, err
	}
	return f.keep(conn, over)
}

func (p *Proxy) end(ctx context.Context, f *flow, name string, a authority) {
	certificate, err := p.certificates.of(a, name)
	if err != nil || !p.budget.take(f, load{bound: 1}) {
		abortFlow(f)
		return
	}
	f.name, f.turns = name, make(chan struct{}, streamsEach)
	f.turns <- struct{}{}
	var conn net.Conn
	secured := tls.Server(f, &tls.Config{Certificates: []tls.Certificate{*certificate}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12})
	within, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := secured.HandshakeContext(within); err != nil {
		f.Close()
		return
	}
	if conn = secured; secured.ConnectionState().NegotiatedProtocol != "h2" {
		conn = &headConn{Conn: secured}
	}
	select {
	case p.ended <- conn:
	case <-ctx.Done():
		f.Close()
	}
}

// abort resets the connection, so that the program gets an error at once.
func abort(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // an error is ignored, because the connection is closed in any case
	}
	conn.Close()
}

func abortFlow(f *flow) {
	if tcp, ok := f.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // an error is ignored, because the connection is closed in any case
	}
	f.Close()
}
