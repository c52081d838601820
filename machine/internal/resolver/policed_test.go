package resolver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func linkPair(t *testing.T) (ours net.Conn, theirs *os.File) {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	file := os.NewFile(uintptr(ends[0]), "ours")
	ours, err = net.FileConn(file)
	must(t, err)
	file.Close()
	theirs = os.NewFile(uintptr(ends[1]), "theirs")
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

type fakeHost struct {
	t       *testing.T
	conn    net.Conn
	granted chan Grant
	refused chan Denied
	acks    chan uint64
	grants  bool
}

func servePoliced(t *testing.T, policies map[netip.Addr]wire.HostEgress, resolvers ...netip.AddrPort) (at string, host *fakeHost) {
	t.Helper()
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	must(t, err)
	tcp, err := net.Listen("tcp4", udp.LocalAddr().String())
	must(t, err)
	var dialer net.Dialer
	s := &Server{Resolvers: func() []netip.AddrPort { return resolvers }, Blocked: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Dial: func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
			return dialer.DialContext(ctx, network, to.String())
		}}
	ours, theirs := linkPair(t)
	link, err := net.FileConn(theirs)
	must(t, err)
	s.Police(link, policies)
	host = &fakeHost{t: t, conn: ours, granted: make(chan Grant, 100), refused: make(chan Denied, 1000), acks: make(chan uint64, 10), grants: true}
	go host.serve()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, udp, tcp) }()
	t.Cleanup(func() { cancel(); must(t, <-ended) })
	return udp.LocalAddr().String(), host
}

func (h *fakeHost) serve() {
	lines := bufio.NewScanner(h.conn)
	for lines.Scan() {
		var message ToHost
		if json.Unmarshal(lines.Bytes(), &message) != nil {
			return
		}
		switch {
		case message.Ack != 0:
			h.acks <- message.Ack
		case message.Grant != nil:
			h.granted <- *message.Grant
			h.send(FromHost{ID: message.Grant.ID, Grant: true, Granted: h.grants})
		}
		for _, one := range message.Refused {
			h.refused <- one
		}
	}
}

func (h *fakeHost) send(message FromHost) {
	text, err := json.Marshal(message)
	if err == nil {
		_, err = h.conn.Write(append(text, '\n'))
	}
	if err != nil {
		h.t.Log(err)
	}
}

func (h *fakeHost) set(id uint64, machine netip.Addr, p *wire.HostEgress) {
	h.t.Helper()
	h.send(FromHost{ID: id, Policies: map[netip.Addr]*wire.HostEgress{machine: p}})
	if got := <-h.acks; got != id {
		h.t.Errorf("acknowledged %d, not %d", got, id)
	}
}

func only(hosts ...string) wire.HostEgress {
	p := wire.HostEgress{Revision: "r1", Mode: wire.EgressAllowlist, CIDRs: []string{}}
	for _, host := range hosts {
		p.Rules = append(p.Rules, wire.HostEgressRule{Host: host, Ports: []int{443}})
	}
	return p
}

func (h *fakeHost) nothingGranted(what string) {
	h.t.Helper()
	select {
	case got := <-h.granted:
		h.t.Errorf("%s: %+v was granted", what, got)
	default:
	}
}

func TestAMachineWithAnAllowlistIsAnsweredItsNamesAlone(t *testing.T) {
	upstream, asked := upstream(t, record(t, "api.example.com. 7200 A 203.0.113.10"))
	at, host := servePoliced(t, map[netip.Addr]wire.HostEgress{machine(1): only("api.example.com"), machine(2): {Revision: "r", Mode: wire.EgressDenyAll}}, upstream)
	for _, name := range []string{"example.com.", "x.api.example.com.", `x\.api.example.com.`, "evil.org."} {
		if answer := lookup(t, machine(1), at, name, dns.TypeA); answer.Rcode != dns.RcodeNameError || len(answer.Answer) != 0 {
			t.Errorf("%s: %v", name, answer)
		}
		if got := <-host.refused; got.Machine != machine(1) || got.Count != 1 || got.Name != name {
			t.Errorf("told: %+v", got)
		}
	}
	if answer := lookup(t, machine(2), at, "api.example.com.", dns.TypeA); answer.Rcode != dns.RcodeNameError {
		t.Errorf("deny_all: %v", answer)
	}
	if len(asked) != 0 {
		t.Errorf("%d were asked for", len(asked))
	}
	host.nothingGranted("not allowed")
	answer := lookup(t, machine(1), at, "API.example.com.", dns.TypeA)
	if len(answer.Answer) != 1 || answer.Answer[0].Header().Ttl != uint32(usableMax/time.Second) {
		t.Errorf("%v", answer)
	}
	if got := <-host.granted; got.Machine != machine(1) || got.Name != "api.example.com." || !slices.Equal(got.Addresses, []netip.Addr{netip.MustParseAddr("203.0.113.10")}) ||
		got.UsableSeconds != uint32(usableMax/time.Second) {
		t.Errorf("%+v", got)
	}
	if answer := lookup(t, machine(3), at, "evil.org.", dns.TypeA); answer.Rcode != dns.RcodeSuccess {
		t.Errorf("a machine without a policy: %v", answer)
	}
	host.nothingGranted("allow_all")
}

func TestAnAnswerWaitsForItsGrantAndFailsWithoutOne(t *testing.T) {
	upstream, _ := upstream(t, record(t, "api.example.com. A 203.0.113.10"))
	at, host := servePoliced(t, map[netip.Addr]wire.HostEgress{machine(1): only("api.example.com")}, upstream)
	host.grants = false
	if answer := lookup(t, machine(1), at, "api.example.com.", dns.TypeA); answer.Rcode != dns.RcodeServerFailure || len(answer.Answer) != 0 {
		t.Errorf("not granted: %v", answer)
	}
	host.conn.Close()
	if answer := lookup(t, machine(1), at, "api.example.com.", dns.TypeA); answer.Rcode != dns.RcodeServerFailure {
		t.Errorf("without hostd: %v", answer)
	}
	if answer := lookup(t, machine(1), at, "evil.org.", dns.TypeA); answer.Rcode != dns.RcodeNameError {
		t.Errorf("without hostd, not allowed: %v", answer)
	}
	if answer := lookup(t, machine(2), at, "api.example.com.", dns.TypeA); len(answer.Answer) != 1 {
		t.Errorf("without hostd, allow_all: %v", answer)
	}
}

func TestOnlyPublicAddressesOfTheNameItselfAreGranted(t *testing.T) {
	upstream, _ := upstream(t,
		record(t, "api.example.com. CNAME cdn.example.net."), record(t, "cdn.example.net. CNAME edge.example.net."),
		record(t, "edge.example.net. 5 A 203.0.113.10"), record(t, "edge.example.net. A 10.1.2.3"), record(t, "other.example.net. A 203.0.113.66"),
		record(t, "edge.example.net. AAAA 2001:db8::1"), record(t, "api.example.com. 9 HTTPS 1 . ipv4hint=203.0.113.11"))
	at, host := servePoliced(t, map[netip.Addr]wire.HostEgress{machine(1): only("api.example.com")}, upstream)
	answer := lookup(t, machine(1), at, "api.example.com.", dns.TypeA)
	if len(answer.Answer) != 5 {
		t.Errorf("%v", answer)
	}
	got := <-host.granted
	if fmt.Sprint(got.Addresses) != "[203.0.113.10 203.0.113.11]" || got.UsableSeconds != 9 {
		t.Errorf("%+v", got)
	}
}

func TestALongAnswerIsLookedAtOnceAndToABound(t *testing.T) {
	answer := func(records ...string) (kept int, addresses []netip.Addr) {
		message := new(dns.Msg).SetQuestion("n0.example.com.", dns.TypeA)
		for _, text := range records {
			message.Answer = append(message.Answer, record(t, text))
		}
		addresses, _ = new(Server).keepNamed("n0.example.com.", message)
		return len(message.Answer), addresses
	}
	chain := func(length int) (records []string) {
		for i := range length { // the last step comes first, so that each record alone leads nowhere when it is read
			records = append(records, fmt.Sprintf("n%d.example.com. CNAME n%d.example.com.", length-1-i, length-i))
		}
		return append(records, fmt.Sprintf("n%d.example.com. A 203.0.113.10", length))
	}
	if kept, addresses := answer(chain(aliasesMax)...); kept != aliasesMax+1 || len(addresses) != 1 {
		t.Errorf("%d steps: %d records, %v", aliasesMax, kept, addresses)
	}
	if _, addresses := answer(chain(aliasesMax + 1)...); len(addresses) != 0 {
		t.Errorf("a step more: %v", addresses)
	}
	if _, addresses := answer("n0.example.com. CNAME n1.example.com.", "n1.example.com. CNAME n0.example.com.", "n1.example.com. A 203.0.113.10"); len(addresses) != 1 {
		t.Errorf("a circle: %v", addresses)
	}
	if kept, _ := answer(slices.Repeat([]string{"n0.example.com. CNAME n1.example.com."}, 5000)...); kept != recordsMax {
		t.Errorf("%d records were kept of 5000", kept)
	}
}

func TestAPolicyHoldsFromItsAcknowledgementOn(t *testing.T) {
	upstream, _ := upstream(t, record(t, "api.example.com. A 203.0.113.10"))
	at, host := servePoliced(t, nil, upstream)
	ask := func(name string) int { return lookup(t, machine(1), at, name, dns.TypeA).Rcode }
	for i := range uint64(50) {
		deny, allow := wire.HostEgress{Revision: "r", Mode: wire.EgressDenyAll}, only("api.example.com")
		host.set(3*i+1, machine(1), &deny)
		if got := ask("api.example.com."); got != dns.RcodeNameError {
			t.Fatalf("deny_all: %d", got)
		}
		host.set(3*i+2, machine(1), &allow)
		if allowed, other := ask("api.example.com."), ask("evil.org."); allowed != dns.RcodeSuccess || other != dns.RcodeNameError {
			t.Fatalf("allowlist: %d, %d", allowed, other)
		}
		host.set(3*i+3, machine(1), nil)
		if got := ask("evil.org."); got != dns.RcodeSuccess {
			t.Fatalf("allow_all: %d", got)
		}
	}
}

func TestWhoAsksForMoreIsToldWhyANameIsNotThere(t *testing.T) {
	at, _ := servePoliced(t, map[netip.Addr]wire.HostEgress{machine(1): only()})
	conn := connect(t, machine(1), at)
	question := new(dns.Msg).SetQuestion("evil.org.", dns.TypeA)
	question.SetEdns0(answerBytesMax, false)
	must(t, conn.WriteMsg(question))
	answer, err := conn.ReadMsg()
	must(t, err)
	option := answer.IsEdns0()
	if option == nil || len(option.Option) != 1 || option.Option[0].(*dns.EDNS0_EDE).InfoCode != dns.ExtendedErrorCodeProhibited {
		t.Errorf("%v", answer)
	}
}

func TestRefusedNamesAreCountedTogetherAndBounded(t *testing.T) {
	link := newHostLink(nil, nil)
	for i := range 2 * deniedMax {
		link.deny(machine(1), fmt.Sprintf("n%d.", i))
		link.deny(machine(1), "again.")
	}
	if len(link.denied) != deniedMax || link.denied[Denied{Machine: machine(1), Name: "again."}] != 2*deniedMax {
		t.Errorf("%d wait, %d of one", len(link.denied), link.denied[Denied{Machine: machine(1), Name: "again."}])
	}
	total := 0
	for batch := link.takeDenied(); len(batch) > 0; batch = link.takeDenied() {
		total += len(batch)
	}
	if total != deniedMax {
		t.Errorf("%d are told", total)
	}
}
