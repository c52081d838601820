package network

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

type Attachment struct {
	NetnsPath  string
	Address    netip.Addr
	Gateway    netip.Addr // the router's end of the link
	Nameserver netip.Addr
}

// Attach makes or adopts the slot's network. Until Connect, only the host can reach the machine, and the machine can
// reach nothing. ErrNoAddress: no address is free.
func (r *Router) Attach(name string) (*Attachment, error) { return r.AttachAt(name, Wish{}) }

// AttachAt is Attach with a wanted address, which the machine gets if it is free. If all free addresses rest, AttachAt
// waits.
func (r *Router) AttachAt(name string, wanted Wish) (*Attachment, error) {
	r.awaitLeft(wanted.Address)
	s, err := r.reserve(name, wanted)
	if err != nil {
		return nil, err
	}
	s.busy.Lock()
	defer s.busy.Unlock()
	if s.index == nowhere {
		return nil, fmt.Errorf("slot %s is being released: %w", name, unix.EBUSY)
	}
	if err := r.attach(s); err != nil {
		return nil, errors.Join(fmt.Errorf("attach slot %s: %w", name, err), r.dismantle(s))
	}
	return &Attachment{NetnsPath: r.machinePin(name), Address: r.address(s.index, 2), Gateway: r.address(s.index, 1), Nameserver: r.nameserver()}, nil
}

func (r *Router) reserve(name string, wanted Wish) (*slot, error) {
	if !slotPattern.MatchString(name) {
		return nil, fmt.Errorf("slot name %q is not allowed: %w", name, unix.EINVAL)
	}
	for deadline := time.Now().Add(2 * r.restLeast()); ; {
		s, wait, err := r.tryReserve(name, wanted, time.Now())
		if s != nil || err != nil {
			return s, err
		}
		if time.Now().Add(wait).After(deadline) { // each time, another machine got the address
			return nil, fmt.Errorf("%s, every free address rests: %w", r.config.MachineNetwork, ErrNoAddress)
		}
		time.Sleep(min(wait, restLook))
	}
}

func (r *Router) tryReserve(name string, wanted Wish, now time.Time) (*slot, time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.slots[name]; s != nil {
		return s, 0, nil
	}
	index, ok := r.indexOf(wanted.Address)
	if !ok || r.used[index] || r.restsFrom(index, wanted.Owner, now) {
		var wait time.Duration
		if index, wait, ok = r.freeIndex(now); !ok {
			return nil, 0, fmt.Errorf("%s, %d machines: %w", r.config.MachineNetwork, len(r.slots), ErrNoAddress)
		}
		if wait > 0 {
			return nil, wait, nil
		}
	}
	s := &slot{name: name, index: index, link: r.freeLink(index), outlet: openOutlet()}
	r.know(s)
	return s, 0, nil
}

func (r *Router) attach(s *slot) error {
	namespace, err := openOrCreateNamespace(r.machinePin(s.name))
	if err != nil {
		return err
	}
	defer namespace.Close()
	machine, err := handleIn(namespace, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer machine.Close()
	link, err := ensurePair(r.links, r.machineLink(s.link), namespace, machine, inside, r.mtu)
	if err != nil {
		return err
	}
	if err := r.links.LinkSetAlias(link, s.name); err != nil {
		return err
	}
	if err := r.rules.add(r.rules.machines, r.key(s)); err != nil {
		return err
	}
	if _, err := setUp(r.links, r.machineLink(s.link), r.address(s.index, 1)); err != nil {
		return err
	}
	if err := r.configure(s, machine); err != nil {
		return err
	}
	return waitUp(r.links, r.machineLink(s.link))
}

func (r *Router) configure(s *slot, machine *netlink.Handle) error {
	loopback, err := machine.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := machine.LinkSetUp(loopback); err != nil {
		return err
	}
	link, err := setUp(machine, inside, r.address(s.index, 2))
	if err != nil {
		return err
	}
	return setDefaultRoute(machine, link, r.address(s.index, 1))
}

// Connect lets the machine use the uplink and the resolver.
func (r *Router) Connect(name string) error {
	return r.withSlot(name, func(s *slot) error {
		if s.connected {
			return nil
		}
		return r.connect(s)
	})
}

// Release removes the slot's network in tens of milliseconds, and frees the address after a few. An unknown slot is no
// error.
func (r *Router) Release(name string) error {
	r.leave(name, "")
	defer r.releaseTurn(name)()
	err := r.busyWith(name, r.dismantle)
	if errors.Is(err, ErrUnknown) && slotPattern.MatchString(name) {
		return removeNamespace(r.machinePin(name))
	}
	return err
}

func (r *Router) dismantle(s *slot) error {
	if s.index != nowhere {
		if err := r.vacate(s); err != nil {
			return err
		}
	}
	err := errors.Join(deleteLink(r.links, r.machineLink(s.link)), removeNamespace(r.machinePin(s.name)), r.removePolicy(s.name))
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(s)
	return nil
}

// vacate frees the address before the rest is removed: a machine restored from this one's memory may need it at once.
func (r *Router) vacate(s *slot) error {
	address := r.address(s.index, 2)
	err := errors.Join(r.disconnect(s), r.rules.remove(r.rules.machines, r.key(s)), r.takeEnds(s), r.forgetFlows(address), r.forgetTraffic(address))
	if err != nil {
		return err
	}
	if r.onRelease != nil {
		r.onRelease(address)
	}
	if err := r.rest(s, time.Now()); err != nil {
		return err
	}
	r.remember(s, func() {
		delete(r.byIP, address)
		delete(r.used, s.index)
		delete(r.used, s.former)
		s.index, s.former, s.outlet = nowhere, nowhere, openOutlet()
		if s.left != nil {
			close(s.left)
		}
	})
	return nil
}

// takeEnds removes the link's own addresses, whose route would misdirect packets for the next machine at the address.
func (r *Router) takeEnds(s *slot) error {
	link, err := r.links.LinkByName(r.machineLink(s.link))
	if isNoLink(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, index := range []int{s.index, s.former} {
		if index == nowhere {
			continue
		}
		err := r.links.AddrDel(link, r.end(index))
		if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("take address %s of %s: %w", r.end(index), r.machineLink(s.link), err)
		}
	}
	return nil
}

// forgetFlows removes tracked connections, because the next machine at the address must not get their packets.
func (r *Router) forgetFlows(machine netip.Addr) error {
	address := machine.AsSlice()
	from, to := &netlink.ConntrackFilter{}, &netlink.ConntrackFilter{}
	if err := errors.Join(from.AddIP(netlink.ConntrackOrigSrcIP, address), to.AddIP(netlink.ConntrackOrigDstIP, address)); err != nil {
		return err
	}
	var err error
	for range adoptRetries {
		_, err = r.links.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, from, to)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if errors.Is(err, unix.ENOENT) { // a connection ended during the deletion, so it is gone
		return nil
	}
	return err
}

func (r *Router) List() ([]string, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	names := []string{}
	for name := range r.slots {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Stats counts all bytes of the link, including traffic with the host.
func (r *Router) Stats(name string) (rx, tx int64, err error) {
	err = r.withSlot(name, func(s *slot) error {
		link, err := r.links.LinkByName(r.machineLink(s.link))
		if err != nil {
			return err
		}
		if counters := link.Attrs().Statistics; counters != nil { // these count at the router's end, so the directions are swapped
			rx, tx = int64(counters.TxBytes), int64(counters.RxBytes)
		}
		return nil
	})
	return rx, tx, err
}

func (r *Router) withSlot(name string, do func(*slot) error) error {
	return r.busyWith(name, func(s *slot) error {
		if s.index == nowhere {
			return ErrUnknown
		}
		return do(s)
	})
}

func (r *Router) busyWith(name string, do func(*slot) error) error {
	s := r.slotNamed(name)
	if s == nil {
		return fmt.Errorf("slot %q: %w", name, ErrUnknown)
	}
	s.busy.Lock()
	defer s.busy.Unlock()
	if r.slotNamed(name) != s { // it was released during the wait, and another slot may use its link now
		return fmt.Errorf("slot %q: %w", name, ErrUnknown)
	}
	if err := do(s); err != nil {
		return fmt.Errorf("network of slot %s: %w", name, err)
	}
	return nil
}

func (r *Router) key(s *slot) []byte {
	address := r.address(s.index, 2).As4()
	return append(padded(r.machineLink(s.link)), address[:]...)
}
