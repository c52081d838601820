package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestThroughTheHostMachinesLeaveMasqueradedAndTheHostStaysItself(t *testing.T) {
	host, world := hostNamespace(t), testNamespace(t, public)
	joinWorld(t, host, world)
	r := openTest(t, testConfig(t, UplinkHost))
	a := attach(t, r, "a")
	must(t, r.Connect("a"))
	serve(t, world, 80)
	serve(t, host, 7001)
	serve(t, a.ns, 65100)
	if who := call(t, a.ns, public, 80); who != "203.0.113.1" {
		t.Errorf("the world saw %q", who)
	}
	if who := call(t, host, a.Address.String(), 65100); who != r.hostAddress().String() {
		t.Errorf("the machine was called by %q", who)
	}
	refuse(t, "guest to the host's public address", a.ns, "203.0.113.1", 7001)
	refuse(t, "guest to the host's link", a.ns, r.hostAddress().String(), 7001)
	refuse(t, "a stranger through the host to a guest", world, a.Address.String(), 65100)
	call(t, world, "203.0.113.1", 7001)
	serve(t, world, 7002)
	refuse(t, "guest to a neighbour of the host", a.ns, "203.0.113.2", 7002)
	withdraw := publish(t, 7003, public, 80)
	if who := call(t, world, "203.0.113.1", 7003); who == "" {
		t.Error("the published port serves nobody")
	}
	refuse(t, "guest to a port that the host publishes for somebody else", a.ns, "203.0.113.1", 7003)
	withdraw()

	must(t, r.Close())
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward"); strings.TrimSpace(string(text)) != "0" || err != nil {
		t.Errorf("forwarding after Close: %q, %v", text, err)
	}
	if tables := hostTables(t); len(tables) != 0 {
		t.Errorf("tables after Close: %v", tables)
	}
}

func TestOfTheHostsUsersOnlyThoseNamedReachMachines(t *testing.T) {
	const named, other = 64001, 64002
	config := testConfig(t, UplinkHost)
	config.Callers = []uint32{named}
	r := openTest(t, config)
	a := attach(t, r, "a")
	serve(t, a.ns, 3000)
	call(t, hostNamespace(t), a.Address.String(), 3000)
	must(t, dialAs(named, a.Address.String(), 3000, arrives))
	if dialAs(other, a.Address.String(), 3000, blocked) == nil {
		t.Error("another user of the host reached a machine")
	}
}

// The kernel sets a socket's owner at its creation.
func dialAs(uid int, address string, port int, within time.Duration) error {
	return onForeignThread(func() error {
		if _, err := unix.SetfsuidRetUid(uid); err != nil {
			return err
		}
		defer unix.SetfsuidRetUid(0)
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(address, strconv.Itoa(port)), within)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

func TestTheLastInstanceThatNeedsForwardingTurnsItOffAgain(t *testing.T) {
	second := testConfig(t, UplinkHost)
	second.Instance, second.MachineNetwork = "7e58", netip.MustParsePrefix("10.118.0.0/16")
	a := openTest(t, testConfig(t, UplinkHost))
	b, err := Open(context.Background(), second)
	must(t, err)
	forwards := func(want string) {
		t.Helper()
		if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward"); strings.TrimSpace(string(text)) != want || err != nil {
			t.Errorf("forwarding is %q, not %s: %v", text, want, err)
		}
	}
	must(t, a.Close())
	forwards("1")
	b.release()
	again := openTest(t, second) // the note outlives the process
	forwards("1")
	must(t, again.Close())
	forwards("0")
}

func TestForwardingStaysOnWhereSomebodyElseHasRulesForIt(t *testing.T) {
	must(t, setSysctl(forwarding, "0"))
	r := openTest(t, testConfig(t, UplinkHost))
	conn, err := nftables.New()
	must(t, err)
	containers := conn.AddTable(&nftables.Table{Name: "containers", Family: nftables.TableFamilyIPv4})
	chain := baseChain(containers, "leaving", nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource, nftables.ChainPolicyAccept)
	chain.Type = nftables.ChainTypeNAT
	conn.AddChain(chain)
	must(t, conn.Flush())
	t.Cleanup(func() { conn.DelTable(containers); must(t, conn.Flush()); must(t, setSysctl(forwarding, "0")) })
	must(t, r.Close())
	if text, err := os.ReadFile("/proc/sys/" + forwarding); strings.TrimSpace(string(text)) != "1" || err != nil {
		t.Errorf("forwarding is %q, and containers need it: %v", text, err)
	}
}

func TestAnotherMachineNetworkIsRefusedWhileMachinesAreThereAndNothingIsCutOff(t *testing.T) {
	c := testConfig(t, UplinkNone)
	r := openTest(t, c)
	m := attach(t, r, "slot")
	serve(t, m.ns, 80)
	for _, other := range []string{"10.119.0.0/16", "10.117.0.0/26"} {
		changed := c
		changed.MachineNetwork = netip.MustParsePrefix(other)
		if other == "10.117.0.0/26" {
			for index := 0; index < 20; index++ { // more than a smaller network can hold
				attach(t, r, fmt.Sprintf("slot%d", index))
			}
		}
		if _, err := Open(context.Background(), changed); err == nil || !strings.Contains(err.Error(), "machine_network cannot become "+other) {
			t.Errorf("%s while machines are there: %v", other, err)
		}
	}
	again, err := Open(context.Background(), c)
	must(t, err)
	defer again.release()
	if names, err := again.List(); err != nil || len(names) != 21 {
		t.Errorf("%d machines are left: %v", len(names), err)
	}
}

func TestWhatIsThereGoesAlsoWhenTheUplinksNamespaceIsGone(t *testing.T) {
	c := testConfig(t, "")
	pin := filepath.Join(t.TempDir(), "uplink")
	namespace, err := createNamespace(pin)
	must(t, err)
	c.Uplink = pin
	r, err := Open(context.Background(), c)
	must(t, err)
	attach(t, r, "slot")
	r.release()
	namespace.Close()
	must(t, removeNamespace(pin))
	if _, err := Open(context.Background(), c); err == nil {
		t.Error("a router without its uplink was opened")
	}
	left, err := OpenToRemove(context.Background(), c)
	must(t, err)
	must(t, left.Close())
	if pins, _ := filepath.Glob(filepath.Join(c.RunDir, "netns", "*")); len(pins) != 0 {
		t.Errorf("left: %v", pins)
	}
}

func TestRulesThatSomebodyRemovesOrAnAddressThatTheHostGetsAreSeenAtOnce(t *testing.T) {
	host, world := hostNamespace(t), testNamespace(t, public)
	joinWorld(t, host, world)
	r := openTest(t, testConfig(t, UplinkHost))
	ctx, stop := context.WithCancel(context.Background())
	kept := make(chan struct{})
	go func() { defer close(kept); r.KeepHostRules(ctx) }()
	defer func() { stop(); <-kept }()
	a := attach(t, r, "a")
	must(t, r.Connect("a"))
	serve(t, world, 80)
	serve(t, host, 7001)
	conn, err := nftables.New()
	must(t, err)
	whole := func() bool {
		missing, err := r.missingHostRules(conn)
		return err == nil && missing == ""
	}
	for name, change := range map[string]func(){
		"everything is flushed": func() { conn.FlushRuleset() },
		"a rule is deleted": func() {
			table := &nftables.Table{Name: r.table(), Family: nftables.TableFamilyINet}
			rules, err := conn.GetRules(table, &nftables.Chain{Name: "to_host", Table: table})
			must(t, err)
			must(t, conn.DelRule(rules[0]))
		},
	} {
		change()
		must(t, conn.Flush())
		within(t, name, whole)
		if who := call(t, a.ns, public, 80); who != "203.0.113.1" {
			t.Errorf("%s: the world saw %q", name, who)
		}
		refuse(t, "guest to the host's public address", a.ns, "203.0.113.1", 7001)
	}

	other, err := netlink.LinkByName("wan")
	must(t, err)
	must(t, netlink.AddrAdd(other, &netlink.Addr{IPNet: ipNet(netip.MustParsePrefix("203.0.113.9/29"))}))
	if whole() {
		t.Error("a network that the host joined is none of its neighbours")
	}
	must(t, r.assertHostRules())
	refuse(t, "guest to a neighbour that the host has got", a.ns, public, 80)
}

func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(keepEvery / 2); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("%s: the rules are not there again", what)
}

func publish(t *testing.T, port uint16, address string, to uint16) (withdraw func()) {
	t.Helper()
	conn, err := nftables.New()
	must(t, err)
	table := conn.AddTable(&nftables.Table{Name: "published", Family: nftables.TableFamilyIPv4})
	chain := conn.AddChain(&nftables.Chain{Table: table, Name: "arriving", Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPrerouting,
		Priority: nftables.ChainPriorityNATDest})
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: rule(protocol(unix.IPPROTO_TCP), dport(port), words{
		&expr.Immediate{Register: register1, Data: netip.MustParseAddr(address).AsSlice()},
		&expr.Immediate{Register: register2, Data: binary.BigEndian.AppendUint16(nil, to)},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: register1, RegProtoMin: register2},
	})})
	back := conn.AddChain(&nftables.Chain{Table: table, Name: "leaving", Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting,
		Priority: nftables.ChainPriorityNATSource})
	conn.AddRule(&nftables.Rule{Table: table, Chain: back, Exprs: rule(daddrIs(netip.MustParseAddr(address)), masquerade())})
	must(t, conn.Flush())
	return func() {
		conn.DelTable(table)
		must(t, conn.Flush())
	}
}

func joinWorld(t *testing.T, host, world *os.File) {
	t.Helper()
	near, err := handleIn(host, unix.NETLINK_ROUTE)
	must(t, err)
	defer near.Close()
	far, err := handleIn(world, unix.NETLINK_ROUTE)
	must(t, err)
	defer far.Close()
	_, err = ensurePair(near, "wan", world, far, "isp", 1400)
	must(t, err)
	t.Cleanup(func() { netlink.LinkDel(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "wan"}}) })
	wan, err := setUp(near, "wan", netip.MustParseAddr("203.0.113.1"))
	must(t, err)
	isp, err := setUp(far, "isp", netip.MustParseAddr("203.0.113.2"))
	must(t, err)
	must(t, setDefaultRoute(near, wan, netip.MustParseAddr("203.0.113.2")))
	must(t, setDefaultRoute(far, isp, netip.MustParseAddr("203.0.113.1")))
}

func hostTables(t *testing.T) []string {
	t.Helper()
	conn, err := nftables.New()
	must(t, err)
	tables, err := conn.ListTables()
	must(t, err)
	names := []string{}
	for _, table := range tables {
		names = append(names, table.Name)
	}
	return names
}

func TestARangeThatTheHostRoutesElsewhereIsRefused(t *testing.T) {
	pair := netlink.NewVeth(netlink.LinkAttrs{Name: "taken"})
	pair.PeerName = "taken2"
	must(t, netlink.LinkAdd(pair))
	link, err := netlink.LinkByName("taken")
	must(t, err)
	t.Cleanup(func() { must(t, netlink.LinkDel(link)) })
	peer, err := netlink.LinkByName("taken2")
	must(t, err)
	must(t, errors.Join(netlink.LinkSetUp(link), netlink.LinkSetUp(peer)))
	for _, network := range []string{"10.117.5.0/24", "10.0.0.0/8"} {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(netip.MustParsePrefix(network))}
		must(t, netlink.RouteAdd(route))
		_, err := Open(context.Background(), testConfig(t, UplinkNone))
		if err == nil || !strings.Contains(err.Error(), network) || !strings.Contains(err.Error(), "taken") {
			t.Errorf("with %s routed: %v", network, err)
		}
		must(t, netlink.RouteDel(route))
	}
}
