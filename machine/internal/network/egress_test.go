package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

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

func TestUnderDenyAllAndAnEmptyAllowlistNothingLeavesAndItIsHeardAtOnce(t *testing.T) {
	for _, p := range []wire.HostEgress{mode("r1", wire.EgressDenyAll), allowlist("r1", nil), allowlist("r1", nil, "api.example.com")} {
		t.Run(fmt.Sprintf("%s %d", p.Mode, len(p.Rules)), func(t *testing.T) {
			w := openPoliced(t, p, nameserver)
			received := receive(t, w.uplink, 9999)
			for _, port := range []int{80, 443, 53, 853} {
				w.refusedAtOnce("tcp", public, port)
			}
			for _, port := range []int{53, 443, 9999} { // DNS of other servers, QUIC, and any other port
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

// The private addresses exist in this network, so only the router refuses them.
func TestUnderNoPolicyIsAnythingPrivateReached(t *testing.T) {
	private := []string{"10.9.9.9", "172.16.5.5", "192.168.77.1", "169.254.169.254", "100.64.1.1", "168.63.129.16"}
	w := openPoliced(t, mode("r1", wire.EgressAllowAll), private...)
	w.reaches(public, 80)
	for _, p := range []wire.HostEgress{mode("r2", wire.EgressAllowAll), allowlist("r3", []string{public + "/32"}, "rebinds.example.com"), mode("r4", wire.EgressDenyAll)} {
		w.set(p)
		if p.Mode == wire.EgressAllowlist { // a name that resolves to them
			must(t, w.grant("rebinds.example.com", append(private, public)...))
		}
		for _, address := range private {
			w.refusedAtOnce(p.Mode, address, 443)
			w.refusedAtOnce(p.Mode, address, 80)
		}
		w.refusedAtOnce(p.Mode, w.r.hostAddress().String(), 443)
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
	for range 20 {
		w.refusedAtOnce("a port", public, 80)
		if again := w.refusals(); !again[0].First.Equal(got[0].First) || !again[0].Last.After(got[0].Last.Add(-time.Second)) {
			t.Fatalf("it began at %s, and at %s", got[0].First, again[0].First)
		}
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
