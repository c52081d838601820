package network

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/resolver"
)

func answerNames(t *testing.T, namespace *os.File) {
	t.Helper()
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		answer := new(dns.Msg)
		answer.SetReply(q)
		name := q.Question[0].Name
		if name == "missing." {
			answer.Rcode = dns.RcodeNameError
		}
		count := 1
		if name == "many." {
			count = 200
		}
		for range count {
			answer.Answer = append(answer.Answer, &dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.ParseIP(public)})
		}
		if w.LocalAddr().Network() == "udp" {
			answer.Truncate(1232)
		}
		w.WriteMsg(answer)
	})
	var udp net.PacketConn
	var tcp net.Listener
	must(t, inNamespace(namespace, func() (err error) {
		if udp, err = net.ListenPacket("udp4", nameserver+":53"); err != nil {
			return err
		}
		tcp, err = net.Listen("tcp4", nameserver+":53")
		return err
	}))
	for _, server := range []*dns.Server{{PacketConn: udp, Handler: handler}, {Listener: tcp, Handler: handler}} {
		go server.ActivateAndServe()
	}
	t.Cleanup(func() { udp.Close(); tcp.Close() })
}

func serveDNS(t *testing.T, r *Router) {
	t.Helper()
	sockets, err := r.ListenForNames()
	must(t, err)
	defer sockets.Close()
	udp, err := net.FilePacketConn(sockets.UDP)
	must(t, err)
	tcp, err := net.FileListener(sockets.TCP)
	must(t, err)
	server := &resolver.Server{Blocked: r.NamesSetup().Blocked, Resolvers: func() (all []netip.AddrPort) {
		for _, text := range r.NamesSetup().Resolvers {
			address, err := resolver.ParseResolver(text)
			must(t, err)
			all = append(all, address)
		}
		return all
	}, Dial: func(_ context.Context, network string, to netip.AddrPort) (conn net.Conn, err error) {
		err = r.WherePacketsLeave(func() error {
			conn, err = net.DialTimeout(network, to.String(), arrives)
			return err
		})
		return conn, err
	}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, udp, tcp) }()
	t.Cleanup(func() { cancel(); must(t, <-ended) })
}

func ask(t *testing.T, m machine, network, name string) (*dns.Msg, error) {
	t.Helper()
	var conn net.Conn
	err := inNamespace(m.ns, func() (err error) {
		conn, err = net.DialTimeout(network, m.Nameserver.String()+":53", arrives)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	question := new(dns.Msg)
	question.SetQuestion(name, dns.TypeA)
	client := &dns.Client{Net: network, Timeout: arrives}
	answer, _, err := client.ExchangeWithConn(question, &dns.Conn{Conn: conn})
	return answer, err
}

func lookup(t *testing.T, m machine, network, name string) *dns.Msg {
	t.Helper()
	answer, err := ask(t, m, network, name)
	must(t, err)
	return answer
}

func TestAResolverThatAnswersIsToldFromOneThatHoldsItsSocketsOnly(t *testing.T) {
	r := openTest(t, testConfig(t, UplinkNone))
	sockets, err := r.ListenForNames()
	must(t, err)
	if err := r.AskForName(100 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("nobody reads what arrives: %v", err)
	}
	sockets.Close()
	serveDNS(t, r)
	must(t, r.AskForName(arrives))
}

func TestAConnectedMachineGetsAnswersFromTheUplinksResolver(t *testing.T) {
	uplink := testNamespace(t, public, nameserver)
	answerNames(t, uplink)
	c := testConfig(t, uplink.Name())
	c.Resolvers = []string{"203.0.113.54", nameserver} // the first one does not exist
	r := openTest(t, c)
	a := attach(t, r, "a")
	serveDNS(t, r)
	for _, network := range []string{"udp", "tcp"} {
		if answer, err := ask(t, a, network, "example.org."); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%s before connect: %v, %v", network, answer, err)
		}
	}
	must(t, r.Connect("a"))
	for _, network := range []string{"udp", "tcp"} {
		answer := lookup(t, a, network, "example.org.")
		if len(answer.Answer) != 1 || answer.Answer[0].(*dns.A).A.String() != public {
			t.Errorf("%s: %v", network, answer)
		}
	}
	if answer := lookup(t, a, "udp", "missing."); answer.Rcode != dns.RcodeNameError {
		t.Errorf("a missing name: %v", answer)
	}
	many := lookup(t, a, "udp", "many.")
	if many.Compress = true; !many.Truncated || many.Len() > dns.MinMsgSize {
		t.Errorf("200 addresses over UDP: truncated %v, %d bytes", many.Truncated, many.Len())
	}
	if answer := lookup(t, a, "tcp", "many."); len(answer.Answer) != 200 {
		t.Errorf("200 addresses over TCP: %d", len(answer.Answer))
	}
}

func TestWithoutAnUplinkDNSFailsAtOnce(t *testing.T) {
	r := openTest(t, testConfig(t, UplinkNone))
	a := attach(t, r, "a")
	must(t, r.Connect("a"))
	serveDNS(t, r)
	if setup := r.NamesSetup(); setup.WithUplink || setup.HostsOwn {
		t.Errorf("a resolver without an uplink is told to ask: %+v", setup)
	}
	if answer := lookup(t, a, "udp", "example.org."); answer.Rcode != dns.RcodeServerFailure {
		t.Errorf("%v", answer)
	}
}

func TestAResolverThatComesBesideAnotherTakesOverWhenThatEnds(t *testing.T) {
	r := openTest(t, testConfig(t, UplinkNone))
	a := attach(t, r, "a")
	must(t, r.Connect("a"))
	first, err := r.ListenForNames()
	must(t, err)
	serveDNS(t, r)
	first.Close()
	for _, network := range []string{"udp", "tcp"} {
		if answer := lookup(t, a, network, "example.org."); answer.Rcode != dns.RcodeServerFailure {
			t.Errorf("%s: %v", network, answer)
		}
	}
}
