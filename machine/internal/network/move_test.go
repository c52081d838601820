package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func another(r *Router) netip.Addr {
	index, _, _ := r.freeIndex(time.Now())
	return r.address(index, 2)
}

func moved(t *testing.T, r *Router, m machine, slot string, wanted netip.Addr) machine {
	t.Helper()
	out, err := r.HandOut(slot)
	must(t, err)
	must(t, out.Socket.Close())
	place, err := r.Move(slot, Wish{Address: wanted})
	must(t, err)
	if place.Address.Addr() != wanted {
		t.Fatalf("moved to %s where %s was wanted", place.Address, wanted)
	}
	handle, err := handleIn(m.ns, unix.NETLINK_ROUTE)
	must(t, err)
	defer handle.Close()
	link, err := setUp(handle, inside, wanted)
	must(t, err)
	must(t, setDefaultRoute(handle, link, place.Gateway))
	attachment := *m.Attachment
	attachment.Address, attachment.Gateway = wanted, place.Gateway
	return machine{&attachment, m.ns}
}

func servingAt(t *testing.T, r *Router, slot string, address netip.Addr) machine {
	t.Helper()
	attachment, err := r.AttachAt(slot, Wish{Address: address})
	must(t, err)
	if attachment.Address != address {
		t.Fatalf("the address %s is not free: there is %s", address, attachment.Address)
	}
	m := attach(t, r, slot)
	serve(t, m.ns, 65100)
	return m
}

func TestAMovedMachineHasItsNewAddressAlone(t *testing.T) {
	uplink := testNamespace(t, public)
	r := openTest(t, testConfig(t, uplink.Name()))
	before := attach(t, r, "a")
	a := moved(t, r, before, "a", another(r))
	serve(t, a.ns, 65100)
	serve(t, uplink, 80)
	if who := call(t, hostNamespace(t), a.Address.String(), 65100); who != r.hostAddress().String() {
		t.Errorf("the machine was called by %q", who)
	}
	must(t, r.Connect("a"))
	call(t, a.ns, public, 80)
	if at, err := r.Machine("a"); at != a.Address || err != nil {
		t.Errorf("the machine is at %s, %v", at, err)
	}

	b := servingAt(t, r, "b", before.Address)
	must(t, r.Connect("b"))
	call(t, hostNamespace(t), b.Address.String(), 65100)
	call(t, b.ns, public, 80)
	received := receive(t, uplink, 9999)
	addAddresses(t, a.ns, inside, before.Address.String())
	send(t, a.ns, before.Address.String(), public, 9999)
	if got := received(blocked); len(got) != 0 {
		t.Errorf("a packet from the address of before came through: %v", got)
	}
	if strays, err := r.Strays(); len(strays) != 0 || err != nil {
		t.Errorf("strays %v, %v", strays, err)
	}
	must(t, errors.Join(r.Release("a"), r.Release("b")))
	if len(r.byIP) != 0 || len(r.usedLinks) != 0 {
		t.Errorf("kept after their release: %v, %v", r.byIP, r.usedLinks)
	}
}

func TestAnAddressThatIsNotFreeIsRefusedAndTheMachineStaysWhereItIs(t *testing.T) {
	r := openTest(t, testConfig(t, UplinkNone))
	a, b := attach(t, r, "a"), attach(t, r, "b")
	for _, wanted := range []netip.Addr{
		b.Address, b.Gateway, r.hostAddress(), r.nameserver(), r.address(1, 2),
		netip.MustParseAddr(public), netip.MustParseAddr("::1"), {},
	} {
		if _, err := r.Move("a", Wish{Address: wanted}); !errors.Is(err, ErrTaken) {
			t.Errorf("move to %s: %v", wanted, err)
		}
	}
	if to, err := r.Move("a", Wish{Address: a.Address}); to.Address.Addr() != a.Address || to.Gateway != a.Gateway || err != nil {
		t.Errorf("move to where it is: %v, %v", to, err)
	}
	serve(t, a.ns, 65100)
	call(t, hostNamespace(t), a.Address.String(), 65100)
	must(t, r.Connect("b"))
	if _, err := r.Move("b", Wish{Address: another(r)}); err == nil {
		t.Error("a machine that is let out was moved")
	}
	if again, err := r.AttachAt("c", Wish{Address: b.Address}); err != nil || again.Address == b.Address {
		t.Errorf("an address was given to two machines: %v, %v", again, err)
	}
}

func TestARouterThatStartsAgainKnowsMovedMachinesByTheirAddress(t *testing.T) {
	c := testConfig(t, UplinkNone)
	first, err := Open(context.Background(), c)
	must(t, err)
	a := moved(t, first, attach(t, first, "a"), "a", another(first))
	cut := attach(t, first, "cut")
	wanted := another(first)
	index, err := first.claim(first.slots["cut"], Wish{Address: wanted})
	must(t, err)
	link, err := first.links.LinkByName(first.machineLink(first.slots["cut"].link))
	must(t, err)
	must(t, first.links.AddrReplace(link, first.end(index))) // the move stops here
	first.release()

	r := openTest(t, c)
	serve(t, a.ns, 65100)
	call(t, hostNamespace(t), a.Address.String(), 65100)
	if again := attach(t, r, "a"); again.Address != a.Address {
		t.Errorf("the address changed from %v to %v", a.Address, again.Address)
	}
	for _, address := range []netip.Addr{cut.Address, wanted} {
		if got, err := r.AttachAt("early-"+fmt.Sprint(number(address)), Wish{Address: address}); err != nil || got.Address == address {
			t.Errorf("%s was given away while the slot whose move was cut short may have it: %v", address, err)
		}
	}
	must(t, r.Release("cut"))
	for _, address := range []netip.Addr{cut.Address, wanted} {
		if got, err := r.AttachAt("late-"+fmt.Sprint(number(address)), Wish{Address: address}); err != nil || got.Address != address {
			t.Errorf("%s is not free after the release: %v, %v", address, got, err)
		}
	}
}

func TestAnAddressIsFreeBeforeItsLinkIsGone(t *testing.T) {
	r := openTest(t, testConfig(t, UplinkNone))
	a := attach(t, r, "a")
	must(t, r.vacate(r.slots["a"]))
	must(t, r.loadRules()) // while the slot has no address
	if _, err := r.Attach("a"); !errors.Is(err, unix.EBUSY) {
		t.Errorf("a slot that is being released was attached: %v", err)
	}
	if err := r.Connect("a"); !errors.Is(err, ErrUnknown) {
		t.Errorf("a slot that is being released was connected: %v", err)
	}
	if at, err := r.Machine("a"); !errors.Is(err, ErrUnknown) {
		t.Errorf("a slot that is being released is at %s, %v", at, err)
	}
	servingAt(t, r, "b", a.Address)
	call(t, hostNamespace(t), a.Address.String(), 65100)
	must(t, r.Release("a"))
	call(t, hostNamespace(t), a.Address.String(), 65100)
	if slots, err := r.List(); len(slots) != 1 || err != nil {
		t.Errorf("slots %v, %v", slots, err)
	}
}

func TestASecondReleaseTakesNothingFromWhoeverHasTheLinkNext(t *testing.T) {
	r := openTest(t, testConfig(t, UplinkNone))
	a := attach(t, r, "a")
	s := r.slots["a"]
	s.busy.Lock()
	released := make(chan error, 1)
	go func() { released <- r.Release("a") }()
	select {
	case err := <-released:
		t.Fatalf("the second did not wait for the first: %v", err)
	case <-time.After(blocked):
	}
	must(t, r.dismantle(s)) // the first release
	if _, err := r.AttachAt("b", Wish{Address: a.Address}); err != nil || r.slots["b"].link != s.link {
		t.Fatalf("the link is not the next one's: %v", err)
	}
	b := attach(t, r, "b")
	serve(t, b.ns, 65100)
	s.busy.Unlock()
	must(t, <-released)
	call(t, hostNamespace(t), a.Address.String(), 65100)
}

func TestAnAddressIsNotFreeWhileSomebodyHasTheTurnOfItsSlot(t *testing.T) {
	r := openTest(t, testConfig(t, UplinkNone))
	var turn sync.Mutex
	r.ReleaseInTurn(func(slot string) func() {
		if slot != "a" {
			return func() {}
		}
		turn.Lock()
		return turn.Unlock
	})
	a := attach(t, r, "a")
	turn.Lock()
	released := make(chan error, 1)
	go func() { released <- r.Release("a") }()
	time.Sleep(blocked)
	if b, err := r.AttachAt("b", Wish{Address: a.Address}); err != nil || b.Address == a.Address {
		t.Errorf("it is another machine's: %v", err)
	}
	turn.Unlock()
	must(t, <-released)
	if c, err := r.AttachAt("c", Wish{Address: a.Address}); err != nil || c.Address != a.Address {
		t.Errorf("it is not free after the turn: %v", err)
	}
}

func TestAnAddressThatIsBeingLeftIsWaitedForAndNoOther(t *testing.T) {
	c := testConfig(t, UplinkNone)
	c.handOver = arrives
	r := openTest(t, c)
	a := attach(t, r, "a")
	attach(t, r, "b")
	if _, err := r.Move("b", Wish{Address: a.Address}); !errors.Is(err, ErrTaken) {
		t.Errorf("the address of a machine that stays: %v", err)
	}
	r.Leave("a", "")
	moved := make(chan error, 1)
	go func() {
		_, err := r.Move("b", Wish{Address: a.Address})
		moved <- err
	}()
	select {
	case err := <-moved:
		t.Fatalf("an address that is not free yet was not waited for: %v", err)
	case <-time.After(blocked):
	}
	must(t, r.Release("a"))
	must(t, <-moved)
	if at, err := r.Machine("b"); at != a.Address || err != nil {
		t.Errorf("it is at %s, %v", at, err)
	}
	r.config.handOver = time.Millisecond
	r.Leave("b", "")
	if c, err := r.AttachAt("c", Wish{Address: a.Address}); err != nil || c.Address == a.Address {
		t.Errorf("a release that does not come: %v, %v", c, err)
	}
}

func TestMovesCostNoAddress(t *testing.T) {
	c := testConfig(t, UplinkNone)
	c.MachineNetwork = netip.MustParsePrefix("10.117.0.0/26")
	r := openTest(t, c)
	for i := range 12 {
		attach(t, r, fmt.Sprintf("s%d", i))
	}
	for i := range 3 {
		_, err := r.Move(fmt.Sprintf("s%d", i), Wish{Address: another(r)})
		must(t, err)
	}
	attach(t, r, "one")
	attach(t, r, "two")
	if _, err := r.Attach("three"); !errors.Is(err, ErrNoAddress) {
		t.Errorf("one more: %v", err)
	}
	if len(r.usedLinks) != 14 {
		t.Errorf("%d links for 14 machines", len(r.usedLinks))
	}
}

func BenchmarkMove(b *testing.B) {
	r, err := Open(context.Background(), Config{Instance: "be7c", MachineNetwork: machineNetwork, Uplink: UplinkNone, RunDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Attach("a"); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := r.Move("a", Wish{Address: another(r)}); err != nil {
			b.Fatal(err)
		}
	}
}
