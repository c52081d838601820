package network

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/nftables"
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

	must(t, r.Close())
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward"); strings.TrimSpace(string(text)) != "0" || err != nil {
		t.Errorf("forwarding after Close: %q, %v", text, err)
	}
	if tables := hostTables(t); len(tables) != 0 {
		t.Errorf("tables after Close: %v", tables)
	}
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

// joinWorld links the host to a namespace that plays the world, which also knows a way to the machines.
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

func TestAHostFirewallThatDropsForwardedPacketsIsALoudFailureUntilItNamesTheLink(t *testing.T) {
	conn, err := nftables.New()
	must(t, err)
	table := conn.AddTable(&nftables.Table{Name: "foreign", Family: nftables.TableFamilyIPv4})
	chain := conn.AddChain(baseChain(table, "FORWARD", nftables.ChainHookForward, nftables.ChainPriorityFilter, nftables.ChainPolicyDrop))
	must(t, conn.Flush())
	t.Cleanup(func() { conn.DelTable(table); must(t, conn.Flush()) })
	c := testConfig(t, UplinkHost)
	if _, err := Open(context.Background(), c); err == nil || !strings.Contains(err.Error(), "b7e57h") {
		t.Fatalf("error %v", err)
	}
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: rule(from("b7e57h"), accept())})
	must(t, conn.Flush())
	openTest(t, c)
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
