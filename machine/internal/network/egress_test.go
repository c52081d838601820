package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	second = "203.0.113.11"
	third  = "203.0.113.12"
	usable = time.Minute
)

func allowlist(revision string, cidrs []string, hosts ...string) wire.EgressPolicy {
	p := wire.EgressPolicy{Revision: revision, Mode: wire.EgressAllowlist, Rules: []wire.EgressRule{}, CIDRs: append([]string{}, cidrs...)}
	for _, host := range hosts {
		p.Rules = append(p.Rules, wire.EgressRule{Host: host, Ports: []int{443}})
	}
	return p
}

func mode(revision, mode string) wire.EgressPolicy {
	return wire.EgressPolicy{Revision: revision, Mode: mode, Rules: []wire.EgressRule{}, CIDRs: []string{}}
}

// policed is a router in front of a world of three addresses, with a machine that is connected under a policy.
type policed struct {
	t      *testing.T
	c      Config
	r      *Router
	uplink *os.File
	a      machine
}

func openPoliced(t *testing.T, p wire.EgressPolicy, more ...string) policed {
	t.Helper()
	uplink := testNamespace(t, append(more, public, second, third)...)
	for _, port := range []int{80, 443} {
		serve(t, uplink, port)
	}
	c := testConfig(t, uplink.Name())
	r := openTest(t, c)
	w := policed{t: t, c: c, r: r, uplink: uplink, a: attach(t, r, "a")}
	must(t, errors.Join(r.SetEgress("a", p), r.Connect("a")))
	return w
}

func (w policed) set(p wire.EgressPolicy) {
	w.t.Helper()
	must(w.t, w.r.SetEgress("a", p))
	if got := w.r.Egress("a"); got != (wire.EgressInForce{Revision: p.Revision, State: wire.EgressEnforced}) {
		w.t.Errorf("in force: %+v", got)
	}
}

func (w policed) grant(name string, addresses ...string) error {
	list := []netip.Addr{}
	for _, text := range addresses {
		list = append(list, netip.MustParseAddr(text))
	}
	return w.r.Grant(w.a.Address, name, list, usable)
}

func (w policed) reaches(address string, port int) {
	w.t.Helper()
	call(w.t, w.a.ns, address, port)
}

// refusedAtOnce is a refusal that a program hears of, and not a silence.
func (w policed) refusedAtOnce(what, address string, port int) {
	w.t.Helper()
	conn, err := dial(w.a.ns, address, port, arrives)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		w.t.Errorf("%s: %s:%d: %v", what, address, port, err)
	}
}

func (w policed) open(address string, port int) net.Conn {
	w.t.Helper()
	conn, err := dial(w.a.ns, address, port, arrives)
	must(w.t, err)
	w.t.Cleanup(func() { conn.Close() })
	line(w.t, conn)
	return conn
}

func (w policed) carries(what string, conn net.Conn, want bool) {
	w.t.Helper()
	within := arrives
	if !want {
		within = time.Second
	}
	if got := echoes(conn, within); got != want {
		w.t.Errorf("%s: the connection carries bytes: %v", what, got)
	}
}

func TestAnAllowlistLetsOutToTheAddressesOfItsNamesAndItsNetworksAlone(t *testing.T) {
	w := openPoliced(t, allowlist("r1", []string{third + "/32"}, "api.example.com", "*.example.org"))
	w.refusedAtOnce("a name that nobody has asked for yet", public, 443)
	must(t, w.grant("api.example.com", public))
	w.reaches(public, 443)
	w.refusedAtOnce("another port", public, 80)
	w.refusedAtOnce("another address", second, 443)
	must(t, w.grant("x.example.org", second))
	w.reaches(second, 443)
	w.reaches(third, 80)
	w.reaches(third, 443)
	for _, name := range []string{"example.com", "a.api.example.com", "a.b.example.org", "evilexample.org", "example.org", ""} {
		if err := w.grant(name, "203.0.113.99"); !errors.Is(err, ErrNotAllowed) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := w.r.Grant(netip.MustParseAddr("10.117.200.2"), "api.example.com", nil, usable); !errors.Is(err, ErrUnknown) {
		t.Errorf("a machine that is not there: %v", err)
	}
}

// T77 and T80 of the reliability plan.
func TestUnderDenyAllAndAnEmptyAllowlistNothingLeavesAndItIsHeardAtOnce(t *testing.T) {
	for _, p := range []wire.EgressPolicy{mode("r1", wire.EgressDenyAll), allowlist("r1", nil), allowlist("r1", nil, "api.example.com")} {
		t.Run(fmt.Sprintf("%s %d", p.Mode, len(p.Rules)), func(t *testing.T) {
			w := openPoliced(t, p, nameserver)
			received := receive(t, w.uplink, 9999)
			for _, port := range []int{80, 443, 53, 853} {
				w.refusedAtOnce("tcp", public, port)
			}
			for _, port := range []int{53, 443, 9999} { // DNS of others, QUIC, and any
				if err := datagram(w.a, nameserver, port); !errors.Is(err, unix.EHOSTUNREACH) && !errors.Is(err, unix.EACCES) {
					t.Errorf("udp %d: %v", port, err)
				}
			}
			for _, number := range []int{unix.IPPROTO_ICMP, unix.IPPROTO_GRE, unix.IPPROTO_SCTP} {
				raw(t, w.a, number, public)
			}
			if got := received(blocked); len(got) != 0 {
				t.Errorf("datagrams left: %v", got)
			}
			if left := conntrackTo(t, w.r); len(left) != 0 {
				t.Errorf("connections: %v", left)
			}
			var protocols []string
			for _, one := range w.refusals() {
				protocols = append(protocols, one.Protocol)
			}
			if all := strings.Join(protocols, " "); !strings.Contains(all, "tcp") || !strings.Contains(all, "udp") || !strings.Contains(all, "other") {
				t.Errorf("counted: %s", all)
			}
		})
	}
}

// datagram is the error that the second of two writes reports, after the answer to the first one.
func datagram(m machine, address string, port int) error {
	return inNamespace(m.ns, func() error {
		conn, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.ParseIP(address), Port: port})
		if err != nil {
			return err
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(arrives))
		if _, err := conn.Write([]byte("x")); err != nil {
			return err
		}
		_, err = conn.Read(make([]byte, 1))
		return err
	})
}

func raw(t *testing.T, m machine, number int, address string) {
	t.Helper()
	must(t, inNamespace(m.ns, func() error {
		socket, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, number)
		if err != nil {
			return err
		}
		defer unix.Close(socket)
		// An echo request, for those who take it as one.
		return unix.Sendto(socket, []byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0}, 0, &unix.SockaddrInet4{Addr: netip.MustParseAddr(address).As4()})
	}))
}

func conntrackTo(t *testing.T, r *Router) (left []string) {
	t.Helper()
	flows, err := r.reachedAddresses()
	must(t, err)
	for machine, addresses := range flows {
		for address := range addresses {
			if machineNetwork.Contains(machine) && !machineNetwork.Contains(address) {
				left = append(left, machine.String()+" "+address.String())
			}
		}
	}
	return left
}

// T01: what is private is reached under no policy. The addresses are there: it is the router that refuses.
func TestUnderNoPolicyIsAnythingPrivateReached(t *testing.T) {
	private := []string{"10.9.9.9", "172.16.5.5", "192.168.77.1", "169.254.169.254", "100.64.1.1", "168.63.129.16"}
	w := openPoliced(t, mode("r1", wire.EgressAllowAll), private...)
	w.reaches(public, 80)
	for _, p := range []wire.EgressPolicy{mode("r2", wire.EgressAllowAll), allowlist("r3", []string{public + "/32"}, "rebinds.example.com"), mode("r4", wire.EgressDenyAll)} {
		w.set(p)
		if p.Mode == wire.EgressAllowlist { // T73: a name that leads there
			must(t, w.grant("rebinds.example.com", append(private, public)...))
		}
		for _, address := range private {
			w.refusedAtOnce(p.Mode, address, 443)
			w.refusedAtOnce(p.Mode, address, 80)
		}
		w.refusedAtOnce(p.Mode, w.r.hostAddress().String(), 443)
	}
}

func TestAChangeCutsWhatIsNoLongerAllowedAndNothingElse(t *testing.T) {
	w := openPoliced(t, mode("r1", wire.EgressAllowAll))
	b := attach(t, w.r, "b")
	must(t, w.r.Connect("b"))
	other, err := dial(b.ns, public, 443, arrives)
	must(t, err)
	defer other.Close()
	line(t, other)
	kept, cut := w.open(third, 80), w.open(public, 443)

	w.set(allowlist("r2", []string{third + "/32"}, "api.example.com"))
	w.carries("no longer allowed", cut, false)
	w.carries("still allowed", kept, true)
	w.carries("another machine's", other, true)
	must(t, w.grant("api.example.com", public))
	named := w.open(public, 443)

	w.set(allowlist("r3", nil, "api.example.com", "more.example.com"))
	w.carries("its network went", kept, false)
	w.carries("its name stays", named, true)
	w.refusedAtOnce("its network went", third, 80)
	w.reaches(public, 443)

	w.set(allowlist("r4", nil, "more.example.com"))
	w.carries("its name went", named, false)
	w.refusedAtOnce("its name went", public, 443)

	w.set(mode("r5", wire.EgressAllowAll))
	again := w.open(public, 80)
	w.set(mode("r6", wire.EgressAllowAll))
	w.carries("all is allowed still", again, true)
	w.set(mode("r7", wire.EgressDenyAll))
	w.carries("nothing is allowed", again, false)
	w.carries("another machine's", other, true)
}

// A machine that only listens sends nothing that could be refused.
func TestAfterAChangeNothingArrivesOverAConnectionThatIsNoLongerAllowed(t *testing.T) {
	uplink := testNamespace(t, public)
	r := openTest(t, testConfig(t, uplink.Name()))
	a := attach(t, r, "a")
	must(t, r.Connect("a"))
	var listener net.Listener
	must(t, inNamespace(uplink, func() (err error) { listener, err = net.Listen("tcp4", public+":443"); return err }))
	defer listener.Close()
	for _, change := range []struct {
		to   wire.EgressPolicy
		want bool
	}{{allowlist("r1", []string{public + "/32"}), true}, {mode("r2", wire.EgressDenyAll), false}} {
		must(t, r.SetEgress("a", mode("r0", wire.EgressAllowAll)))
		near, err := dial(a.ns, public, 443, arrives)
		must(t, err)
		far, err := listener.Accept()
		must(t, err)
		must(t, r.SetEgress("a", change.to))
		far.Write([]byte("x"))
		wait := arrives
		if !change.want {
			wait = 5 * blocked
		}
		near.SetReadDeadline(time.Now().Add(wait))
		if n, err := near.Read(make([]byte, 1)); (n == 1) != change.want {
			t.Errorf("%s: %d, %v", change.to.Mode, n, err)
		}
		if !change.want { // whoever sends is told
			far.SetReadDeadline(time.Now().Add(arrives))
			if _, err := far.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
				t.Errorf("the sender heard %v", err)
			}
		}
		near.Close()
		far.Close()
	}
}

func TestARouterThatStartsAgainEnforcesTheSamePolicyAndCutsNoConnection(t *testing.T) {
	uplink := testNamespace(t, public, second, third)
	serve(t, uplink, 443)
	c := testConfig(t, uplink.Name())
	first, err := Open(context.Background(), c)
	must(t, err)
	w := policed{t: t, c: c, r: first, uplink: uplink, a: attach(t, first, "a")}
	open, closed := attach(t, first, "open"), attach(t, first, "closed")
	must(t, errors.Join(first.SetEgress("a", allowlist("r1", []string{third + "/32"}, "api.example.com")), first.Connect("a")))
	must(t, errors.Join(first.SetEgress("open", mode("r9", wire.EgressAllowAll)), first.Connect("open")))
	must(t, first.SetEgress("closed", mode("r8", wire.EgressDenyAll)))
	must(t, w.grant("api.example.com", public))
	conn := w.open(public, 443)
	w.refusedAtOnce("not allowed", second, 443)
	first.release()
	w.refusedAtOnce("while no hostd is there", second, 443)
	w.carries("while no hostd is there", conn, true)

	w.r = openTest(t, c)
	w.carries("after the restart", conn, true)
	w.reaches(public, 443)
	w.reaches(third, 443)
	w.refusedAtOnce("not allowed", second, 443)
	call(t, open.ns, second, 443)
	refuse(t, "not connected", closed.ns, public, 443)
	for slot, revision := range map[string]string{"a": "r1", "open": "r9", "closed": "r8"} {
		if got := w.r.Egress(slot); got != (wire.EgressInForce{Revision: revision, State: wire.EgressEnforced}) {
			t.Errorf("%s: %+v", slot, got)
		}
	}
	if got := w.refusals(); len(got) != 1 || got[0].Count != 3 || got[0].Address.String() != second || got[0].Port != 443 {
		t.Errorf("refused: %+v", got)
	}
	if got := w.r.Restricted(); len(got) != 2 || got[w.a.Address].Revision != "r1" {
		t.Errorf("restricted: %+v", got)
	}
	w.set(allowlist("r2", nil, "api.example.com"))
	w.carries("its name is allowed still", conn, true)
	must(t, w.r.Connect("closed"))
	refuse(t, "deny_all", closed.ns, public, 443)
}

func (w policed) refusals() []Refusal {
	w.t.Helper()
	list, err := w.r.Refusals("a")
	must(w.t, err)
	return list
}

func TestAMachineOfAnOlderVersionHasTheDefaultPolicyAndOneWhosePolicyIsUnreadableReachesNothing(t *testing.T) {
	uplink := testNamespace(t, public)
	serve(t, uplink, 443)
	c := testConfig(t, uplink.Name())
	first, err := Open(context.Background(), c)
	must(t, err)
	w := policed{t: t, c: c, r: first, uplink: uplink, a: attach(t, first, "a")}
	must(t, first.Connect("a"))
	conn := w.open(public, 443)
	first.release()
	must(t, os.RemoveAll(first.policyDir()))

	next, err := Open(context.Background(), c)
	must(t, err)
	w.r = next
	w.carries("default", conn, true)
	if got := w.r.Egress("a"); got != (wire.EgressInForce{Revision: wire.EgressDefault, State: wire.EgressEnforced}) {
		t.Errorf("%+v", got)
	}
	next.release()
	must(t, os.WriteFile(next.policyPath("a"), []byte(`{"policy":{"revision":"r","mode":"allow_al`), 0o600))

	w.r = openTest(t, c)
	w.carries("unreadable", conn, false)
	w.refusedAtOnce("unreadable", public, 443)
	if got := w.r.Egress("a"); got.State != wire.EgressFailed {
		t.Errorf("%+v", got)
	}
	w.set(mode("r1", wire.EgressAllowAll))
	w.reaches(public, 443)
}

func TestWhateverSomebodyElseChangesInTheRouterIsPutInAgain(t *testing.T) {
	w := openPoliced(t, allowlist("r1", []string{third + "/32"}, "api.example.com"))
	must(t, w.grant("api.example.com", public))
	conn := w.open(public, 443)
	w.refusedAtOnce("not allowed", second, 443)
	ctx, stop := context.WithCancel(t.Context())
	kept := make(chan struct{})
	go func() { defer close(kept); w.r.KeepRules(ctx) }()
	defer func() { stop(); <-kept }()
	nft := func(command string) {
		must(t, inNamespace(w.r.namespace, func() error { return exec.Command("nft", command).Run() }))
	}
	table := "ip " + w.r.table()
	for what, change := range map[string]string{
		"flush":    "flush ruleset",
		"opened":   "insert rule " + table + " passing accept",
		"emptied":  "flush map " + table + " out",
		"names":    "flush set " + table + " " + w.r.namesOf(w.r.slots["a"], w.r.slots["a"].outlet).Name,
		"stranger": "add table inet stranger",
	} {
		nft(change)
		within(t, what, func() bool {
			if conn, err := dial(w.a.ns, second, 443, blocked); err == nil {
				conn.Close()
				return false
			}
			reached, err := dial(w.a.ns, public, 443, blocked)
			if err != nil {
				return false
			}
			reached.Close()
			return true
		})
		w.carries(what, conn, true)
		w.reaches(third, 80)
	}
	if got := w.refusals(); len(got) < 1 || got[0].Address.String() != second {
		t.Errorf("counted: %+v", got)
	}
}

func TestAnAddressEndsWithItsTimeAndStaysWhileAConnectionLasts(t *testing.T) {
	w := openPoliced(t, allowlist("r1", nil, "api.example.com", "other.example.com"))
	s := w.r.slots["a"]
	must(t, w.grant("api.example.com", public, second))
	must(t, w.grant("other.example.com", second))
	conn := w.open(public, 443)
	ends := s.outlet.grants[netip.MustParseAddr(public)].last()
	if left := time.Until(ends); left > 2*usable || left < 2*usable-arrives {
		t.Errorf("it ends in %s", left)
	}
	must(t, w.r.keepGrants(ends.Add(-time.Second))) // which sees the connection
	if now := s.outlet.grants[netip.MustParseAddr(public)].last(); !now.After(ends) {
		t.Errorf("it is not kept: %s, %s", now, ends)
	}
	if now := s.outlet.grants[netip.MustParseAddr(second)].last(); now.After(ends.Add(time.Minute)) {
		t.Errorf("it is kept without a connection: %s, %s", now, ends)
	}
	elements, err := w.r.rules.elements(w.r.namesOf(s, s.outlet))
	must(t, err)
	comments := map[string]string{}
	for _, element := range elements {
		address, port, _ := splitPortKey(element.Key)
		comments[fmt.Sprintf("%s:%d", address, port)] = element.Comment
	}
	if len(comments) != 2 || comments[public+":443"] != "api.example.com" || comments[second+":443"] != "api.example.com other.example.com" {
		t.Errorf("the kernel holds %v", comments)
	}
	s.outlet.grants[netip.MustParseAddr(second)].until = map[string]time.Time{"api.example.com": time.Now().Add(-time.Hour)}
	w.set(allowlist("r2", nil, "api.example.com"))
	w.refusedAtOnce("its time is over", second, 443)
	w.carries("it was kept", conn, true)
}

func TestWhatOneMachineIsGrantedIsBounded(t *testing.T) {
	w := openPoliced(t, allowlist("r1", nil, "*.example.com"))
	s := w.r.slots["a"]
	address := netip.MustParseAddr("198.20.0.0")
	var err error
	granted := 0
	for range 2000 {
		list := []netip.Addr{}
		for range 16 {
			address = address.Next()
			list = append(list, address)
		}
		if err = w.r.Grant(w.a.Address, "x.example.com", list, usable); err != nil {
			break
		}
		granted++
	}
	if !errors.Is(err, errTooFast) || granted < grantsBurst {
		t.Errorf("%d answers, then %v", granted, err)
	}
	elements, err := w.r.rules.elements(w.r.namesOf(s, s.outlet))
	must(t, err)
	if len(elements) != outletAddressesMax || len(s.outlet.grants) != outletAddressesMax {
		t.Errorf("%d elements, %d addresses", len(elements), len(s.outlet.grants))
	}
}

func TestRefusalsAreCountedByAddressWithinABound(t *testing.T) {
	w := openPoliced(t, allowlist("r1", nil, "api.example.com"))
	must(t, w.grant("api.example.com", public))
	for range 3 {
		w.refusedAtOnce("a port", public, 80)
	}
	began := time.Now()
	got := w.refusals()
	if len(got) != 1 || got[0].Count != 3 || got[0].Protocol != wire.DeniedTCP || got[0].Port != 80 || len(got[0].Names) != 1 || got[0].Names[0] != "api.example.com" {
		t.Fatalf("%+v", got)
	}
	if got[0].First.After(got[0].Last) || began.Sub(got[0].First) > arrives || got[0].Last.After(began.Add(time.Second)) {
		t.Errorf("from %s to %s, at %s", got[0].First, got[0].Last, began)
	}
	must(t, inNamespace(w.a.ns, func() error {
		socket, err := net.ListenUDP("udp4", nil)
		if err != nil {
			return err
		}
		defer socket.Close()
		for i := range 4 * refusalsMax {
			socket.WriteToUDP([]byte("x"), &net.UDPAddr{IP: net.IPv4(198, 20, byte(i>>8), byte(i)), Port: 443})
		}
		return nil
	}))
	if got := w.refusals(); len(got) != refusalsMax {
		t.Errorf("%d are counted", len(got))
	}
	w.refusedAtOnce("still", second, 443)
	w.set(mode("r2", wire.EgressDenyAll))
	if got := w.refusals(); len(got) != refusalsMax {
		t.Errorf("after a change %d are counted", len(got))
	}
	must(t, w.r.Release("a"))
	w.a = attach(t, w.r, "a")
	must(t, w.r.Connect("a"))
	if got := w.refusals(); len(got) != 0 {
		t.Errorf("another machine has %+v", got)
	}
}

func (w policed) ruleset() string {
	w.t.Helper()
	var text []byte
	must(w.t, inNamespace(w.r.namespace, func() (err error) {
		if text, err = exec.Command("nft", "list", "ruleset").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return err
	}))
	return string(text)
}

// People read the rules with nft.
func TestTheRulesOfAPolicyCanBeReadWithNft(t *testing.T) {
	w := openPoliced(t, allowlist("r1", []string{third + "/32"}, "api.example.com"))
	must(t, w.grant("api.example.com", public))
	rules := w.ruleset()
	for _, part := range []string{"ip daddr . tcp dport @" + namesPrefix, `comment "api.example.com"`, "ip saddr vmap @out", "ip saddr . ct mark @fresh", third} {
		if !strings.Contains(rules, part) {
			t.Errorf("%q is not in\n%s", part, rules)
		}
	}
}

func TestAReleasedMachineLeavesNothingOfItsPolicy(t *testing.T) {
	w := openPoliced(t, allowlist("r1", []string{third + "/32"}, "api.example.com"))
	released := []netip.Addr{}
	w.r.OnRelease(func(address netip.Addr) { released = append(released, address) })
	must(t, w.grant("api.example.com", public))
	before := w.a.Address
	must(t, w.r.Release("a"))
	rules := w.ruleset()
	for _, left := range []string{"policy_", "names_", "networks_", "refused_last", "refused_first", "elements"} {
		if strings.Contains(rules, left) && left != "elements" || left == "elements" && strings.Contains(rules, before.String()) {
			t.Errorf("%s is left:\n%s", left, rules)
		}
	}
	if _, err := os.Stat(w.r.policyPath("a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file: %v", err)
	}
	if len(released) != 1 || released[0] != before {
		t.Errorf("released: %v", released)
	}
}
