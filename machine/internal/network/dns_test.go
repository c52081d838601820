package network

import (
	"context"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// answerNames is a resolver that knows one address for every name but "missing.", and answers late for "late.".
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
		if udp, err = net.ListenPacket("udp4", resolver+":53"); err != nil {
			return err
		}
		tcp, err = net.Listen("tcp4", resolver+":53")
		return err
	}))
	for _, server := range []*dns.Server{{PacketConn: udp, Handler: handler}, {Listener: tcp, Handler: handler}} {
		go server.ActivateAndServe()
	}
	t.Cleanup(func() { udp.Close(); tcp.Close() })
}

func serveDNS(t *testing.T, r *Router) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Serve(ctx) }()
	t.Cleanup(func() { cancel(); must(t, <-ended) })
}

func lookup(t *testing.T, m machine, network, name string) (*dns.Msg, time.Duration) {
	t.Helper()
	var conn net.Conn
	must(t, inNamespace(m.ns, func() (err error) {
		conn, err = net.DialTimeout(network, m.Nameserver.String()+":53", arrives)
		return err
	}))
	defer conn.Close()
	question := new(dns.Msg)
	question.SetQuestion(name, dns.TypeA)
	client := &dns.Client{Net: network, Timeout: arrives}
	for try := 0; ; try++ { // the proxy starts beside the test, so the first datagram may come too early
		answer, took, err := client.ExchangeWithConn(question, &dns.Conn{Conn: conn})
		if err == nil {
			return answer, took
		}
		if try == 50 || !strings.Contains(err.Error(), "refused") {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestAConnectedMachineGetsAnswersFromTheUplinksResolver(t *testing.T) {
	uplink := testNamespace(t, public, resolver)
	answerNames(t, uplink)
	c := testConfig(t, uplink.Name())
	c.Resolvers = []string{"203.0.113.54", resolver} // the first one does not exist
	r := openTest(t, c)
	a := attach(t, r, "a")
	serveDNS(t, r)
	if answer, _ := lookup(t, a, "udp", "example.org."); answer.Rcode != dns.RcodeServerFailure {
		t.Errorf("before connect: %v", answer)
	}
	must(t, r.Connect("a"))
	for _, network := range []string{"udp", "tcp"} {
		answer, _ := lookup(t, a, network, "example.org.")
		if len(answer.Answer) != 1 || answer.Answer[0].(*dns.A).A.String() != public {
			t.Errorf("%s: %v", network, answer)
		}
	}
	if answer, _ := lookup(t, a, "udp", "missing."); answer.Rcode != dns.RcodeNameError {
		t.Errorf("a missing name: %v", answer)
	}
	many, _ := lookup(t, a, "udp", "many.")
	if many.Compress = true; !many.Truncated || many.Len() > dns.MinMsgSize {
		t.Errorf("200 addresses over UDP: truncated %v, %d bytes", many.Truncated, many.Len())
	}
	if answer, _ := lookup(t, a, "tcp", "many."); len(answer.Answer) != 200 {
		t.Errorf("200 addresses over TCP: %d", len(answer.Answer))
	}
}

func TestWithoutAnUplinkDNSFailsAtOnce(t *testing.T) {
	r := openTest(t, testConfig(t, UplinkNone))
	a := attach(t, r, "a")
	must(t, r.Connect("a"))
	serveDNS(t, r)
	lookup(t, a, "udp", "example.org.")
	answer, took := lookup(t, a, "udp", "example.org.")
	if answer.Rcode != dns.RcodeServerFailure || took > resolverTimeout/2 {
		t.Errorf("after %s: %v", took, answer)
	}
}

func TestQuestionsOfOneMachineAreBounded(t *testing.T) {
	p := &proxy{each: map[netip.Addr]int{}}
	for range questionsMachineMax {
		if !p.enter(machineNetwork.Addr()) {
			t.Fatal("refused too early")
		}
	}
	if p.enter(machineNetwork.Addr()) {
		t.Error("one too many was let in")
	}
	if !p.enter(machineNetwork.Addr().Next()) {
		t.Error("another machine was refused")
	}
	p.leave(machineNetwork.Addr())
	if !p.enter(machineNetwork.Addr()) {
		t.Error("refused though one left")
	}
}
