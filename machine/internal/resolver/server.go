// Package resolver answers machines' DNS questions. It parses input of hostile guests, so it runs as an unprivileged
// process. The process is in the uplink's network.
package resolver

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/berth-dev/berth/machine/internal/accepting"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	connectionsMax    = 8   // TCP connections of one machine; each may buffer a question of 64 KiB
	connectionAsksMax = 128 // questions on one connection
	readTimeout       = 2 * time.Second
	idleTimeout       = 10 * time.Second
	answerBytesMax    = 1232 // maximum of an answer over UDP, which fits without fragmentation
)

// Server forwards each question to Resolvers in order.
type Server struct {
	Resolvers func() []netip.AddrPort // none: every question fails at once
	Dial      func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error)
	Blocked   []netip.Prefix // networks of which no address is in an answer

	shares shares
	host   *hostLink // nil: every machine may ask for every name
}

// Serve answers on these sockets. The kernel's rules pass only packets of connected machines, each with its own address
// as source.
func (s *Server) Serve(ctx context.Context, udp net.PacketConn, tcp net.Listener) error {
	s.shares.open()
	if s.host != nil {
		go s.host.run(ctx)
	}
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, question *dns.Msg) { s.answer(ctx, w, question) })
	servers := []*dns.Server{
		{PacketConn: udp, Handler: handler, UDPSize: 4096},
		{Listener: &limitedListener{Listener: tcp, open: map[netip.Addr]int{}}, Handler: handler, MaxTCPQueries: connectionAsksMax, ReadTimeout: readTimeout,
			IdleTimeout: func() time.Duration { return idleTimeout }},
	}
	ended := make(chan error, len(servers))
	for _, server := range servers {
		go func() { ended <- server.ActivateAndServe() }()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-ended:
		err = fmt.Errorf("serving DNS ended: %w", err)
	}
	udp.Close()
	tcp.Close()
	if s.host != nil {
		s.host.conn.Close()
	}
	return err
}

// Police connects the server to hostd, which sets policies. It must be called before Serve.
func (s *Server) Police(conn net.Conn, policies map[netip.Addr]wire.HostEgress) {
	s.host = newHostLink(conn, policies)
}

// answer forwards a new message with a random id, because the machine's message may be hostile.
func (s *Server) answer(ctx context.Context, w dns.ResponseWriter, question *dns.Msg) {
	network, machine := w.LocalAddr().Network(), addressOf(w.RemoteAddr())
	if network == "tcp" {
		if !s.shares.long.Take(machine) {
			_ = w.WriteMsg(failure(question, dns.RcodeServerFailure)) // an error is ignored, as below
			return
		}
		defer s.shares.long.Give(machine) // after the answer is written, because a machine may read slowly
	}
	answer := s.decide(ctx, machine, network, question)
	if network == "udp" {
		answer.Truncate(udpSize(question))
	}
	_ = w.WriteMsg(answer) // a failed write is ignored: a machine that still exists asks again
}

func (s *Server) decide(ctx context.Context, machine netip.Addr, network string, question *dns.Msg) *dns.Msg {
	switch {
	case !sane(question):
		return failure(question, dns.RcodeRefused)
	case s.asksForBlocked(question.Question[0].Name):
		return failure(question, dns.RcodeNameError)
	case !s.shares.enter(machine, time.Now()):
		return failure(question, dns.RcodeServerFailure)
	}
	defer s.shares.leave(machine)
	policy, name := s.host.policyOf(machine), question.Question[0].Name
	if policy != nil && len(policy.Ports(name)) == 0 {
		s.host.deny(machine, strings.ToLower(name))
		return prohibited(question)
	}
	if answer := s.ask(ctx, question, network); answer != nil {
		if answer = s.withoutBlocked(answer); policy != nil {
			return s.letOut(ctx, machine, question, answer)
		}
		return answer
	}
	return failure(question, dns.RcodeServerFailure)
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

func addressOf(address net.Addr) netip.Addr {
	port, err := netip.ParseAddrPort(address.String())
	if err != nil {
		return netip.Addr{}
	}
	return port.Addr().Unmap()
}

// limitedListener limits each machine's connections, so that no machine uses up the file descriptors.
type limitedListener struct {
	net.Listener
	mu   sync.Mutex
	open map[netip.Addr]int
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := accepting.Next(l.Listener)
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
