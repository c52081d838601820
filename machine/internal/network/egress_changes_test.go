package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

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

func TestAfterAChangeNothingArrivesOverAConnectionThatIsNoLongerAllowed(t *testing.T) {
	uplink := testNamespace(t, public)
	r := openTest(t, testConfig(t, uplink.Name()))
	a := attach(t, r, "a")
	must(t, r.Connect("a"))
	var listener net.Listener
	must(t, inNamespace(uplink, func() (err error) { listener, err = net.Listen("tcp4", public+":443"); return err }))
	defer listener.Close()
	for _, change := range []struct {
		to   wire.HostEgress
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
		if !change.want { // the sender gets a reset
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

	next, err := Open(context.Background(), c)
	must(t, err)
	w.r = next
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
	w.r.release()
	w.r = openTest(t, c)
	if got := w.refusals(); len(got) != 1 || got[0].Count != 3 {
		t.Errorf("refused, after another restart: %+v", got)
	}
	w.set(allowlist("r2", nil, "api.example.com"))
	w.carries("its name is allowed still", conn, true)
	must(t, w.r.Connect("closed"))
	refuse(t, "deny_all", closed.ns, public, 443)
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
	must(t, os.RemoveAll(first.policyDir()))
	name := first.table() // an older version had one table for IPv4 and IPv6
	w.nft(fmt.Sprintf(`delete table ip %[1]s; delete table ip6 %[1]s; add table inet %[1]s; add set inet %[1]s connected { type ifname . ipv4_addr; };
		add element inet %[1]s connected { "%[2]s" . %[3]s }`, name, first.machineLink(first.slots["a"].link), w.a.Address))
	first.release()

	next, err := Open(context.Background(), c)
	must(t, err)
	w.r = next
	w.carries("default", conn, true)
	if rules := w.ruleset(); strings.Contains(rules, "table inet") {
		t.Errorf("the older table is left:\n%s", rules)
	}
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
	table := "ip " + w.r.table()
	for what, change := range map[string]string{
		"flush":    "flush ruleset",
		"opened":   "insert rule " + table + " passing accept",
		"emptied":  "flush map " + table + " out",
		"names":    "flush set " + table + " " + w.r.namesOf(w.r.slots["a"], w.r.slots["a"].outlet).Name,
		"stranger": "add table inet stranger",
	} {
		w.nft(change)
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
	if got := w.refusals(); !slices.ContainsFunc(got, func(one Refusal) bool { return one.Address.String() == second }) {
		t.Errorf("counted: %+v", got)
	}
}

func TestChangesOfOursAreNotTakenForSomebodyElses(t *testing.T) {
	w := openPoliced(t, allowlist("r1", []string{third + "/32"}, "api.example.com"))
	s := w.r.slots["a"]
	ours := func(what string) {
		t.Helper()
		if foreign, err := w.r.rules.foreignChange(); foreign || err != nil {
			t.Errorf("%s: %v, %v", what, foreign, err)
		}
	}
	ours("connect")
	must(t, errors.Join(w.grant("api.example.com", public), w.grant("api.example.com", public)))
	ours("grant")
	w.set(allowlist("r2", nil, "api.example.com"))
	w.set(mode("r3", wire.EgressAllowAll))
	w.set(mode("r4", wire.EgressAllowAll))
	w.set(mode("r5", wire.EgressDenyAll))
	ours("policies")
	w.refusedAtOnce("counted", public, 443)
	w.refusals()
	ours("counting")
	must(t, w.r.rules.remove(w.r.rules.machines, append(padded("none"), 1, 2, 3, 4))) // the element does not exist
	ours("a change that failed")
	attach(t, w.r, "b")
	must(t, errors.Join(w.r.Connect("b"), w.r.Connect("b"), w.r.Release("b"), w.r.Release("b")))
	ours("another machine")
	w.set(allowlist("r6", nil, "api.example.com"))
	must(t, w.grant("api.example.com", second))
	must(t, w.r.rules.remove(w.r.namesOf(s, s.outlet), portKey(netip.MustParseAddr(second), 443))) // as if it had expired
	s.outlet.grants[netip.MustParseAddr(second)].until["api.example.com"] = time.Now()
	must(t, w.grant("api.example.com", second))
	w.reaches(second, 443)
	ours("an address that ended meanwhile")
	must(t, w.r.Release("a"))
	ours("release")
}
