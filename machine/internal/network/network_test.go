package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/egress"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestTheHostReachesMachinesAndTheyReachNeitherItNorEachOther(t *testing.T) {
	uplink := testNamespace(t, public)
	c := testConfig(t, uplink.Name())
	r := openTest(t, c)
	host := hostNamespace(t)
	addAddresses(t, host, "lo", "203.0.113.200")
	a, b := attach(t, r, "a"), attach(t, r, "b")
	serve(t, a.ns, 65100)
	serve(t, b.ns, 65100)
	serve(t, host, 7001)
	serve(t, r.namespace, 7002)
	for _, connected := range []bool{false, true} {
		if connected {
			must(t, errors.Join(r.Connect("a"), r.Connect("b")))
		}
		if who := call(t, host, a.Address.String(), 65100); who != r.hostAddress().String() {
			t.Errorf("the machine was called by %q", who)
		}
		refuseAll(t, []attempt{
			{"guest to guest", a.ns, b.Address.String(), 65100},
			{"guest to the other's gateway", a.ns, b.Gateway.String(), 7002},
			{"guest to the host's link", a.ns, r.hostAddress().String(), 7001},
			{"guest to the host's public address", a.ns, "203.0.113.200", 7001},
			{"guest to its gateway", a.ns, a.Gateway.String(), 7002},
			{"guest to the nameserver's other ports", a.ns, a.Nameserver.String(), 7002},
			{"uplink to guest", uplink, a.Address.String(), 65100},
		})
	}
}

func TestOnlyAConnectedMachineReachesTheUplink(t *testing.T) {
	uplink := testNamespace(t, public)
	r := openTest(t, testConfig(t, uplink.Name()))
	a, b := attach(t, r, "a"), attach(t, r, "b")
	serve(t, uplink, 80)
	refuse(t, "before connect", a.ns, public, 80)
	must(t, r.Connect("a"))
	must(t, r.Connect("a"))
	conn, err := dial(a.ns, public, 80, arrives)
	must(t, err)
	defer conn.Close()
	if who := line(t, conn); who != r.address(1, 2).String() {
		t.Errorf("the uplink saw %q, not the router", who)
	}
	if !echoes(conn, arrives) {
		t.Error("the open connection carries nothing")
	}
	refuse(t, "the other machine", b.ns, public, 80)
}

func TestSpecialRangesAreNeverReached(t *testing.T) {
	addresses := []string{"10.9.9.9", "172.16.5.5", "192.168.77.1", "169.254.169.254", "100.64.1.1", "198.18.0.1", "192.0.0.8", "192.0.2.9", "240.1.1.1", "10.117.255.254"}
	uplink := testNamespace(t, append(addresses, public)...)
	r := openTest(t, testConfig(t, uplink.Name()))
	a := attach(t, r, "a")
	must(t, r.Connect("a"))
	serve(t, uplink, 80)
	call(t, a.ns, public, 80)
	var attempts []attempt
	for _, address := range append(addresses, r.address(1, 1).String()) {
		attempts = append(attempts, attempt{"special range", a.ns, address, 80})
	}
	refuseAll(t, attempts)
}

func TestASpoofedSourceIsDropped(t *testing.T) {
	uplink := testNamespace(t, public)
	r := openTest(t, testConfig(t, uplink.Name()))
	a, b := attach(t, r, "a"), attach(t, r, "b")
	must(t, errors.Join(r.Connect("a"), r.Connect("b")))
	received := receive(t, uplink, 9999)
	addAddresses(t, a.ns, inside, b.Address.String(), "203.0.113.99")
	send(t, a.ns, b.Address.String(), public, 9999)
	send(t, a.ns, "203.0.113.99", public, 9999)
	if got := received(blocked); len(got) != 0 {
		t.Errorf("spoofed packets came through: %v", got)
	}
	send(t, a.ns, a.Address.String(), public, 9999)
	if got := received(arrives); len(got) != 1 {
		t.Errorf("an honest packet did not come through: %v", got)
	}
}

func TestARouterThatStartsAgainAdoptsMachinesAndCutsNoConnection(t *testing.T) {
	uplink := testNamespace(t, public)
	c := testConfig(t, uplink.Name())
	first, err := Open(context.Background(), c)
	must(t, err)
	a, b := attach(t, first, "a"), attach(t, first, "b")
	must(t, first.Connect("a"))
	serve(t, uplink, 80)
	conn, err := dial(a.ns, public, 80, arrives)
	must(t, err)
	defer conn.Close()
	line(t, conn)
	_, err = first.Attach("half")
	must(t, err)
	must(t, deleteLink(first.links, first.machineLink(first.slots["half"].link))) // a crash in the middle of a release
	first.release()

	r := openTest(t, c)
	if slots, err := r.List(); !slices.Equal(slots, []string{"a", "b"}) || err != nil {
		t.Fatalf("slots %v, %v", slots, err)
	}
	if _, err := os.Stat(r.machinePin("half")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the pin of a half slot: %v", err)
	}
	again := attach(t, r, "a")
	if again.Address != a.Address {
		t.Errorf("the address changed from %v to %v", a.Address, again.Address)
	}
	if !echoes(conn, arrives) {
		t.Error("the open connection was cut")
	}
	call(t, a.ns, public, 80)
	refuse(t, "still not connected", b.ns, public, 80)
	rx, tx, err := r.Stats("a")
	if err != nil || rx == 0 || tx == 0 {
		t.Errorf("stats: %d, %d, %v", rx, tx, err)
	}
}

func TestAHandedOutLinkIsItsSocketsAlone(t *testing.T) {
	r := openTest(t, testConfig(t, UplinkNone))
	a := attach(t, r, "a")
	out, err := r.HandOut("a")
	must(t, err)
	defer out.Socket.Close()
	again, err := r.HandOut("a")
	must(t, err)
	again.Socket.Close()
	if out.Address != netip.PrefixFrom(a.Address, prefixLen) || out.Gateway != a.Gateway || out.Name != inside || out.MTU != r.mtu || len(out.Hardware) != 6 || out.GSOBytes == 0 {
		t.Errorf("handed out %+v", out)
	}
	handle, err := handleIn(a.ns, unix.NETLINK_ROUTE)
	must(t, err)
	defer handle.Close()
	link, err := handle.LinkByName(inside)
	must(t, err)
	if left, err := handle.AddrList(link, unix.AF_INET); len(left) != 0 || err != nil {
		t.Errorf("addresses that the namespace still answers to: %v, %v", left, err)
	}
	must(t, unix.SetsockoptTimeval(int(out.Socket.Fd()), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 30}))
	conn, err := net.Dial("udp", net.JoinHostPort(a.Address.String(), "9"))
	must(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("who has it"))
	must(t, err)
	frame := make([]byte, 2048)
	n, err := out.Socket.Read(frame)
	must(t, err)
	// An ARP request (type 0x0806), after the offload header and Ethernet's addresses.
	const header = 10 + 12
	if n < header+2 || frame[header] != 0x08 || frame[header+1] != 0x06 {
		t.Errorf("the socket saw %x", frame[:n])
	}
}

func TestAReleasedSlotIsGoneAndItsAddressRests(t *testing.T) {
	r := openTest(t, testConfig(t, UplinkNone))
	a := attach(t, r, "a")
	link := r.machineLink(r.slots["a"].link)
	must(t, r.Release("a"))
	must(t, r.Release("a"))
	if _, err := os.Stat(a.NetnsPath); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the pin: %v", err)
	}
	if _, err := r.links.LinkByName(link); !isNoLink(err) {
		t.Errorf("the link: %v", err)
	}
	if elements, err := r.rules.conn.GetSetElements(r.rules.machines); len(elements) != 0 || err != nil {
		t.Errorf("set elements: %v, %v", elements, err)
	}
	if again := attach(t, r, "a"); again.Address == a.Address {
		t.Errorf("the address %s was given away at once", a.Address)
	}
	if err := r.Connect("x"); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown slot: %v", err)
	}
	for _, name := range []string{"", "..", "a/b", "A"} {
		if _, err := r.Attach(name); err == nil {
			t.Errorf("slot name %q was accepted", name)
		}
	}
}

func TestAFullMachineNetworkSaysSo(t *testing.T) {
	c := testConfig(t, UplinkNone)
	c.MachineNetwork = netip.MustParsePrefix("10.117.0.0/26")
	r := openTest(t, c)
	seen := map[netip.Addr]bool{}
	for i := range 14 {
		a := attach(t, r, fmt.Sprintf("s%d", i))
		seen[a.Address] = c.MachineNetwork.Contains(a.Address)
	}
	if len(seen) != 14 {
		t.Errorf("%d addresses for 14 machines", len(seen))
	}
	if _, err := r.Attach("more"); !errors.Is(err, ErrNoAddress) {
		t.Errorf("one more: %v", err)
	}
	must(t, r.Release("s3"))
	attach(t, r, "more")
}

func TestCloseLeavesNothing(t *testing.T) {
	uplink := testNamespace(t, public)
	c := testConfig(t, uplink.Name())
	r := openTest(t, c)
	attach(t, r, "a")
	must(t, r.Close())
	links, err := net.Interfaces()
	must(t, err)
	for _, link := range links {
		if strings.HasPrefix(link.Name, "b7e57") {
			t.Errorf("link %s is left", link.Name)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(c.RunDir, "*/*")); len(left) != 0 {
		t.Errorf("left in the run directory: %v", left)
	}
	if tables := hostTables(t); len(tables) != 0 {
		t.Errorf("tables %v", tables)
	}
}

func TestNoThreadIsLeftInAForeignNamespace(t *testing.T) {
	r := openTest(t, testConfig(t, UplinkNone))
	for i := range 8 {
		attach(t, r, fmt.Sprintf("s%d", i))
	}
	home, err := os.Readlink("/proc/self/ns/net")
	must(t, err)
	tasks, err := filepath.Glob("/proc/self/task/*/ns/net")
	must(t, err)
	for _, task := range tasks {
		if where, err := os.Readlink(task); err == nil && where != home {
			t.Errorf("%s is in %s", task, where)
		}
	}
}

func BenchmarkAttach(b *testing.B) {
	r, err := Open(context.Background(), Config{Instance: "be7c", MachineNetwork: machineNetwork, Uplink: UplinkNone, RunDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	for i := 0; b.Loop(); i++ {
		if _, err := r.Attach(fmt.Sprintf("s%d", i)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkConnect(b *testing.B) {
	for name, policy := range map[string]wire.HostEgress{"default": egress.Default(), "allowlist": allowlist("r1", []string{"8.8.8.0/24"}, "api.example.com")} {
		b.Run(name, func(b *testing.B) {
			r, err := Open(context.Background(), Config{Instance: "be7c", MachineNetwork: machineNetwork, Uplink: UplinkNone, RunDir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			for i := 0; b.Loop(); i++ {
				slot := fmt.Sprintf("s%d", i)
				b.StopTimer()
				if _, err := r.Attach(slot); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if err := errors.Join(r.SetEgress(slot, policy), r.Connect(slot)); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := r.Release(slot); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
