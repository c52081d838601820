package resolver

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/berth-dev/berth/machine/internal/testns"
)

const patient = time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func machine(number byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 9, 0, number}) }

func upstream(t *testing.T, answers ...dns.RR) (at netip.AddrPort, asked chan string) {
	t.Helper()
	asked = make(chan string, 1<<12)
	over := make(chan struct{})
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	must(t, err)
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, question *dns.Msg) {
		asked <- question.Question[0].Name
		if question.Question[0].Name == "silent." {
			<-over
			return
		}
		answer := new(dns.Msg).SetReply(question)
		answer.Answer = answers
		w.WriteMsg(answer)
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.ActivateAndServe() }()
	t.Cleanup(func() { close(over); conn.Close(); <-ended })
	return netip.MustParseAddrPort(conn.LocalAddr().String()), asked
}

func serve(t *testing.T, resolvers ...netip.AddrPort) (at string, s *Server) {
	t.Helper()
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	must(t, err)
	tcp, err := net.Listen("tcp4", udp.LocalAddr().String())
	must(t, err)
	var dialer net.Dialer
	s = &Server{Resolvers: func() []netip.AddrPort { return resolvers }, Blocked: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.168.0.0/16")},
		Dial: func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
			return dialer.DialContext(ctx, network, to.String())
		}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, udp, tcp) }()
	t.Cleanup(func() { cancel(); must(t, <-ended) })
	return udp.LocalAddr().String(), s
}

func connect(t *testing.T, from netip.Addr, at string) *dns.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.UDPAddr{IP: from.AsSlice()}}
	conn, err := dialer.Dial("udp4", at)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(testns.Patience(patient))))
	return &dns.Conn{Conn: conn}
}

func lookup(t *testing.T, from netip.Addr, at, name string, kind uint16) *dns.Msg {
	t.Helper()
	conn := connect(t, from, at)
	must(t, conn.WriteMsg(new(dns.Msg).SetQuestion(name, kind)))
	answer, err := conn.ReadMsg()
	must(t, err)
	return answer
}

func record(t *testing.T, text string) dns.RR {
	t.Helper()
	record, err := dns.NewRR(text)
	must(t, err)
	return record
}

func TestAMachineThatAsksWithoutEndTakesNothingFromAnother(t *testing.T) {
	resolver, asked := upstream(t, record(t, "example.org. A 203.0.113.10"))
	at, _ := serve(t, resolver)
	for number := range byte(12) { // 12 x 64 exceeds any limit that all machines could share
		greedy := connect(t, machine(number+1), at)
		for range asksMax {
			must(t, greedy.WriteMsg(new(dns.Msg).SetQuestion("silent.", dns.TypeA)))
		}
		for range asksMax {
			<-asked
		}
		must(t, greedy.WriteMsg(new(dns.Msg).SetQuestion("example.org.", dns.TypeA)))
		if answer, err := greedy.ReadMsg(); err != nil || answer.Rcode != dns.RcodeServerFailure {
			t.Errorf("one question too many: %v, %v", answer, err)
		}
	}
	if answer := lookup(t, machine(99), at, "example.org.", dns.TypeA); len(answer.Answer) != 1 {
		t.Errorf("another machine was answered %v", answer)
	}
}

func TestWhileManyAskEachHasItsShareAndNoneHasNothing(t *testing.T) {
	s, now := shares{}, time.Now()
	s.open()
	enters := func(who netip.Addr) (times int) {
		for s.enter(who, now) {
			times++
		}
		return times
	}
	if got := enters(machine(0)); got != asksMax {
		t.Errorf("alone: %d", got)
	}
	const many = asksTogether/asksMin + 100
	address := netip.MustParseAddr("10.0.0.0")
	sum := asksMax
	for range many {
		address = address.Next()
		got := enters(address)
		if sum += got; got < asksMin {
			t.Fatalf("a machine had %d", got)
		}
	}
	if most := asksTogether * 4; sum > most {
		t.Errorf("%d ask at once, and %d should", sum, most)
	}
	for range asksMax {
		s.leave(machine(0))
	}
	if got := enters(machine(0)); got != asksMin {
		t.Errorf("among %d: %d", many, got)
	}
}

func TestLongAnswersStayWithinTheMemoryOfTheProcessAndNoMachineHasAllOfIt(t *testing.T) {
	if most := longMax*longAnswer*readTimes + asksTogether*answerBytesMax*readTimes; most > MemoryBytesMax*3/4 {
		t.Errorf("answers may take %d MiB", most>>20)
	}
	s := shares{}
	s.open()
	enters := func(who netip.Addr) (times int) {
		for s.long.Take(who) {
			times++
		}
		return times
	}
	if got := enters(machine(0)); got != longEach {
		t.Errorf("alone: %d", got)
	}
	address, others := netip.MustParseAddr("10.0.0.0"), 0
	for range longMax {
		address = address.Next()
		others += enters(address)
	}
	if others != longMax-longEach {
		t.Errorf("the others have %d of %d", others, longMax-longEach)
	}
	for range longEach {
		s.long.Give(machine(0))
	}
	if late := enters(netip.MustParseAddr("10.1.0.0")); late == 0 || others+late > longMax {
		t.Errorf("a machine that comes late has %d, and all have %d", late, others+late)
	}
}

func TestQuestionsOfOneMachineAreBoundedInTime(t *testing.T) {
	s, now := shares{}, time.Now()
	s.open()
	asks := func(who netip.Addr, count int) (let int) {
		for range count {
			if s.enter(who, now) {
				s.leave(who)
				let++
			}
		}
		return let
	}
	if got := asks(machine(1), 10*asksBurst); got != asksBurst {
		t.Errorf("at once: %d", got)
	}
	if got := asks(machine(2), asksBurst); got != asksBurst {
		t.Errorf("another machine: %d", got)
	}
	now = now.Add(time.Second)
	if got := asks(machine(1), asksBurst); got != asksPerSecond {
		t.Errorf("a second later: %d", got)
	}
}

func TestNoAnswerNamesAnAddressThatMachinesDoNotReach(t *testing.T) {
	good := []string{"a. 60 IN A 203.0.113.10", "a. 60 IN AAAA 2001:db8::1", "a. 60 IN TXT \"10.1.2.3\"", "a. 60 IN HTTPS 1 . ipv4hint=203.0.113.10"}
	bad := []string{"a. 60 IN A 10.1.2.3", "a. 60 IN A 192.168.0.1", "a. 60 IN AAAA fd00::1", "a. 60 IN AAAA fe80::1", "a. 60 IN AAAA ::1",
		"a. 60 IN AAAA ::ffff:10.1.2.3", "a. 60 IN AAAA 64:ff9b::a01:203", "a. 60 IN HTTPS 1 . ipv4hint=203.0.113.10,10.1.2.3", "a. 60 IN SVCB 1 . ipv6hint=fd00::1"}
	var records []dns.RR
	for _, text := range slices.Concat(bad, good) {
		records = append(records, record(t, text))
	}
	resolver, _ := upstream(t, records...)
	at, _ := serve(t, resolver)
	answer := lookup(t, machine(1), at, "a.", dns.TypeANY)
	if answer.Rcode != dns.RcodeSuccess || len(answer.Answer) != len(good) {
		t.Fatalf("%v", answer)
	}
	for i, text := range good {
		if got := answer.Answer[i]; !dns.IsDuplicate(got, record(t, text)) {
			t.Errorf("%v is not %s", got, text)
		}
	}
}

func TestNamesOfAddressesThatMachinesDoNotReachAreAskedFromNobody(t *testing.T) {
	resolver, asked := upstream(t)
	at, _ := serve(t, resolver)
	for _, name := range []string{"4.3.2.10.in-addr.arpa.", "2.10.IN-ADDR.arpa.", "10.in-addr.arpa.", "1.0.168.192.in-addr.arpa.", "_x.4.3.2.10.in-addr.arpa.", "1.0.0.d.f.ip6.arpa."} {
		if answer := lookup(t, machine(1), at, name, dns.TypePTR); answer.Rcode != dns.RcodeNameError || len(asked) != 0 {
			t.Errorf("%s: %v", name, answer)
		}
	}
	for _, name := range []string{"10.113.0.203.in-addr.arpa.", "192.in-addr.arpa.", "in-addr.arpa.", "1.0.0.2.ip6.arpa.", "10.example.org."} {
		if answer := lookup(t, machine(1), at, name, dns.TypePTR); answer.Rcode != dns.RcodeSuccess || len(asked) != 1 {
			t.Errorf("%s: %v", name, answer)
		}
		<-asked
	}
}

func TestConnectionsOfOneMachineAreBounded(t *testing.T) {
	resolver, _ := upstream(t)
	at, _ := serve(t, resolver)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: machine(1).AsSlice()}}
	for range connectionsMax {
		conn, err := dialer.Dial("tcp4", at)
		must(t, err)
		defer conn.Close()
	}
	over, err := dialer.Dial("tcp4", at)
	must(t, err)
	defer over.Close()
	must(t, over.SetDeadline(time.Now().Add(testns.Patience(patient))))
	if n, err := over.Read(make([]byte, 1)); n != 0 || err == nil || isTimeout(err) {
		t.Errorf("one too many is not closed: %v", err)
	}
	other := net.Dialer{LocalAddr: &net.TCPAddr{IP: machine(2).AsSlice()}}
	conn, err := other.Dial("tcp4", at)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(testns.Patience(patient))))
	stream := &dns.Conn{Conn: conn}
	must(t, stream.WriteMsg(new(dns.Msg).SetQuestion("4.3.2.10.in-addr.arpa.", dns.TypePTR)))
	if _, err := stream.ReadMsg(); err != nil {
		t.Errorf("another machine: %v", err)
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}
