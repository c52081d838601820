package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	questionsMax        = 512 // at a time, of all machines
	questionsMachineMax = 64
	connectionsMax      = 16 // TCP, of one machine
	resolverTimeout     = 2 * time.Second
	questionTimeout     = 5 * time.Second // over all resolvers
	answerBytesMax      = 1232            // over UDP: what passes without fragments
	resolvConf          = "/etc/resolv.conf"
)

// Serve answers machines' DNS questions until ctx ends. It listens inside the router, so a question cannot come from elsewhere, and
// asks the resolvers from where packets leave: the host, or the uplink's namespace. Who is not connected gets SERVFAIL at once.
func (r *Router) Serve(ctx context.Context) error {
	proxy, err := r.newProxy()
	if err != nil {
		return err
	}
	udp, tcp, err := r.listen()
	if err != nil {
		return fmt.Errorf("listen for DNS on %s: %w", r.nameserver(), err)
	}
	servers := []*dns.Server{
		{PacketConn: udp, Handler: proxy, UDPSize: 4096},
		{Listener: &limitedListener{Listener: tcp, open: map[netip.Addr]int{}}, Handler: proxy, MaxTCPQueries: 128, ReadTimeout: resolverTimeout,
			IdleTimeout: func() time.Duration { return 10 * time.Second }},
	}
	ended := make(chan error, len(servers))
	for _, server := range servers {
		go func() { ended <- server.ActivateAndServe() }()
	}
	select {
	case <-ctx.Done():
		err = nil
	case err = <-ended:
		err = fmt.Errorf("the DNS proxy ended: %w", err)
	}
	udp.Close()
	tcp.Close()
	return err
}

func (r *Router) listen() (udp net.PacketConn, tcp net.Listener, err error) {
	address := netip.AddrPortFrom(r.nameserver(), dnsPort)
	err = inNamespace(r.namespace, func() (err error) {
		if udp, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(address)); err != nil {
			return err
		}
		if tcp, err = net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(address)); err != nil {
			udp.Close()
		}
		return err
	})
	return udp, tcp, err
}

type proxy struct {
	router    *Router
	resolvers func() []netip.AddrPort

	mu   sync.Mutex
	all  int
	each map[netip.Addr]int
}

func (r *Router) newProxy() (*proxy, error) {
	p := &proxy{router: r, each: map[netip.Addr]int{}}
	fixed := []netip.AddrPort{}
	for _, text := range r.config.Resolvers {
		resolver, err := parseResolver(text)
		if err != nil {
			return nil, err
		}
		fixed = append(fixed, resolver)
	}
	p.resolvers = func() []netip.AddrPort { return fixed }
	switch {
	case len(fixed) > 0:
	case r.config.Uplink == UplinkHost:
		p.resolvers = (&hostResolvers{}).read
	case r.uplinkIsNamespace():
		slog.Warn("no resolvers are set for the uplink namespace: machines get no DNS answers", "uplink", r.config.Uplink)
	}
	return p, nil
}

func parseResolver(text string) (netip.AddrPort, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(address, dnsPort), nil
	}
	resolver, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("resolver %q is neither an address nor address:port", text)
	}
	return resolver, nil
}

// ServeDNS answers one question. Its bytes come from a hostile machine; a new message goes on, with an id of ours.
func (p *proxy) ServeDNS(w dns.ResponseWriter, question *dns.Msg) {
	machine := addressOf(w.RemoteAddr())
	answer := failure(question, dns.RcodeServerFailure)
	switch {
	case !sane(question):
		answer = failure(question, dns.RcodeRefused)
	case !p.router.isConnected(machine) || !p.enter(machine):
	default:
		if got := p.ask(question, w.LocalAddr().Network()); got != nil {
			answer = got
		}
		p.leave(machine)
	}
	if w.LocalAddr().Network() == "udp" {
		answer.Truncate(udpSize(question))
	}
	_ = w.WriteMsg(answer) // the machine may be gone, and asks again if it is not
}

func sane(m *dns.Msg) bool {
	return !m.Response && m.Opcode == dns.OpcodeQuery && len(m.Question) == 1 && m.Question[0].Qclass == dns.ClassINET &&
		m.Question[0].Qtype != dns.TypeAXFR && m.Question[0].Qtype != dns.TypeIXFR
}

func failure(question *dns.Msg, code int) *dns.Msg {
	answer := new(dns.Msg)
	answer.SetRcode(question, code)
	return answer
}

func udpSize(question *dns.Msg) int {
	if option := question.IsEdns0(); option != nil {
		return min(max(int(option.UDPSize()), dns.MinMsgSize), answerBytesMax)
	}
	return dns.MinMsgSize
}

// ask returns nil when no resolver answered in time.
func (p *proxy) ask(question *dns.Msg, network string) *dns.Msg {
	if p.router.config.Uplink == UplinkNone {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), questionTimeout)
	defer cancel()
	for _, resolver := range p.resolvers() {
		answer, err := p.exchange(ctx, copyQuestion(question), network, resolver)
		if err == nil && answer.Rcode != dns.RcodeServerFailure && answer.Rcode != dns.RcodeRefused {
			answer.Id = question.Id
			answer.Compress = true
			return answer
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	return nil
}

// copyQuestion takes along what matters to the answer and nothing else, such as client subnets or cookies.
func copyQuestion(question *dns.Msg) *dns.Msg {
	fresh := new(dns.Msg)
	fresh.Id, fresh.RecursionDesired, fresh.CheckingDisabled = dns.Id(), question.RecursionDesired, question.CheckingDisabled
	fresh.Question = question.Question
	if option := question.IsEdns0(); option != nil {
		fresh.SetEdns0(answerBytesMax, option.Do())
	}
	return fresh
}

func (p *proxy) exchange(ctx context.Context, question *dns.Msg, network string, resolver netip.AddrPort) (*dns.Msg, error) {
	conn, err := p.router.dialOut(network, resolver)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := &dns.Client{Net: network, Timeout: resolverTimeout, UDPSize: 4096}
	answer, _, err := client.ExchangeWithConnContext(ctx, question, &dns.Conn{Conn: conn})
	if err != nil {
		return nil, err
	}
	if len(answer.Question) != 1 || answer.Question[0] != question.Question[0] {
		return nil, errors.New("the resolver answered another question")
	}
	return answer, nil
}

// dialOut makes the socket where packets leave. A new one for each question: its port is one more thing a forger must guess.
func (r *Router) dialOut(network string, resolver netip.AddrPort) (conn net.Conn, err error) {
	dialer := net.Dialer{Timeout: resolverTimeout}
	dial := func() error {
		conn, err = dialer.Dial(network, resolver.String())
		return err
	}
	if r.uplink == nil {
		err = dial()
	} else {
		err = inNamespace(r.uplink, dial)
	}
	return conn, err
}

func (r *Router) isConnected(machine netip.Addr) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.byIP[machine]
	return s != nil && s.connected
}

func (p *proxy) enter(machine netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all >= questionsMax || p.each[machine] >= questionsMachineMax {
		return false
	}
	p.all++
	p.each[machine]++
	return true
}

func (p *proxy) leave(machine netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.each[machine]--; p.each[machine] == 0 {
		delete(p.each, machine)
	}
}

func addressOf(address net.Addr) netip.Addr {
	port, err := netip.ParseAddrPort(address.String())
	if err != nil {
		return netip.Addr{}
	}
	return port.Addr().Unmap()
}

// hostResolvers reads the host's file again when it changed: it does, with every new network of a laptop.
type hostResolvers struct {
	mu      sync.Mutex
	changed time.Time
	known   []netip.AddrPort
}

func (h *hostResolvers) read() []netip.AddrPort {
	h.mu.Lock()
	defer h.mu.Unlock()
	info, err := os.Stat(resolvConf)
	if err != nil || info.ModTime().Equal(h.changed) {
		return h.known
	}
	config, err := dns.ClientConfigFromFile(resolvConf)
	if err != nil {
		return h.known
	}
	h.known, h.changed = nil, info.ModTime()
	for _, server := range config.Servers {
		if resolver, err := parseResolver(server); err == nil {
			h.known = append(h.known, resolver)
		}
	}
	return h.known
}

// limitedListener closes a machine's connections beyond its share, so that one cannot use up hostd's files.
type limitedListener struct {
	net.Listener
	mu   sync.Mutex
	open map[netip.Addr]int
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		machine := addressOf(conn.RemoteAddr())
		if l.count(machine, 1) <= connectionsMax {
			return &countedConn{Conn: conn, leave: sync.OnceFunc(func() { l.count(machine, -1) })}, nil
		}
		l.count(machine, -1)
		conn.Close()
	}
}

func (l *limitedListener) count(machine netip.Addr, change int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[machine] += change
	now := l.open[machine]
	if now == 0 {
		delete(l.open, machine)
	}
	return now
}

type countedConn struct {
	net.Conn
	leave func()
}

func (c *countedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
