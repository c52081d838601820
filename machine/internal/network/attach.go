package network

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Attachment is the network of one slot.
type Attachment struct {
	NetnsPath  string
	Address    netip.Addr // the machine's
	Gateway    netip.Addr // the router's end
	Nameserver netip.Addr
}

// Attach makes the slot's namespace, link and address, or takes those that are there. The machine can be called by the host
// and can ask nothing but its nameserver, until Connect. ErrNoAddress: the machine network is full.
func (r *Router) Attach(name string) (*Attachment, error) {
	s, err := r.reserve(name)
	if err != nil {
		return nil, err
	}
	s.busy.Lock()
	defer s.busy.Unlock()
	if err := r.attach(s); err != nil {
		return nil, errors.Join(fmt.Errorf("attach slot %s: %w", name, err), r.dismantle(s))
	}
	return &Attachment{NetnsPath: r.machinePin(name), Address: r.address(s.index, 2), Gateway: r.address(s.index, 1), Nameserver: r.nameserver()}, nil
}

func (r *Router) reserve(name string) (*slot, error) {
	if !slotPattern.MatchString(name) {
		return nil, fmt.Errorf("slot name %q is not allowed: %w", name, unix.EINVAL)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.slots[name]; s != nil {
		return s, nil
	}
	for range r.indexes() - firstIndex {
		if r.next++; r.next >= r.indexes() {
			r.next = firstIndex
		}
		if !r.used[r.next] {
			s := &slot{name: name, index: r.next, outlet: openOutlet()}
			r.know(s)
			return s, nil
		}
	}
	return nil, fmt.Errorf("%s, %d machines: %w", r.config.MachineNetwork, len(r.slots), ErrNoAddress)
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
	link, err := ensurePair(r.links, r.machineLink(s.index), namespace, machine, inside, r.mtu)
	if err != nil {
		return err
	}
	if err := r.links.LinkSetAlias(link, s.name); err != nil {
		return err
	}
	if err := r.rules.add(r.rules.machines, r.key(s)); err != nil {
		return err
	}
	if _, err := setUp(r.links, r.machineLink(s.index), r.address(s.index, 1)); err != nil {
		return err
	}
	if err := r.configure(s, machine); err != nil {
		return err
	}
	return waitUp(r.links, r.machineLink(s.index))
}

// configure sets up the machine's own end.
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

// Connect lets the machine's packets leave to the uplink as far as its policy allows, and its DNS questions be answered.
func (r *Router) Connect(name string) error {
	return r.withSlot(name, func(s *slot) error {
		if s.connected {
			return nil
		}
		return r.connect(s)
	})
}

// Release takes the slot's network away (tens of milliseconds: call it in the background). The address is not given to
// another slot before everything is gone. A slot that is not there is fine.
func (r *Router) Release(name string) error {
	err := r.withSlot(name, r.dismantle)
	if errors.Is(err, ErrUnknown) && slotPattern.MatchString(name) {
		return removeNamespace(r.machinePin(name))
	}
	return err
}

func (r *Router) dismantle(s *slot) error {
	err := errors.Join(r.disconnect(s), r.rules.remove(r.rules.machines, r.key(s)),
		deleteLink(r.links, r.machineLink(s.index)), r.forgetFlows(s), r.forgetTraffic(r.address(s.index, 2)), removeNamespace(r.machinePin(s.name)), r.removePolicy(s.name))
	if err != nil {
		return err
	}
	if r.onRelease != nil {
		r.onRelease(r.address(s.index, 2))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(s)
	return nil
}

// forgetFlows keeps the next machine with this address from getting answers to the last one's questions.
func (r *Router) forgetFlows(s *slot) error {
	address := r.address(s.index, 2).AsSlice()
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
	if errors.Is(err, unix.ENOENT) { // one ended meanwhile
		return nil
	}
	return err
}

// List names the slots that have a network.
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

// Stats are bytes that the machine got and sent since Attach, from and to whomever: the host's own questions are among them.
func (r *Router) Stats(name string) (rx, tx int64, err error) {
	err = r.withSlot(name, func(s *slot) error {
		link, err := r.links.LinkByName(r.machineLink(s.index))
		if err != nil {
			return err
		}
		if counters := link.Attrs().Statistics; counters != nil { // counted at the router's end, so the other way round
			rx, tx = int64(counters.TxBytes), int64(counters.RxBytes)
		}
		return nil
	})
	return rx, tx, err
}

func (r *Router) withSlot(name string, do func(*slot) error) error {
	r.mu.RLock()
	s := r.slots[name]
	r.mu.RUnlock()
	if s == nil {
		return fmt.Errorf("slot %q: %w", name, ErrUnknown)
	}
	s.busy.Lock()
	defer s.busy.Unlock()
	if err := do(s); err != nil {
		return fmt.Errorf("network of slot %s: %w", name, err)
	}
	return nil
}

// key is the element of the sets: the link's name, and the one address that may come from it.
func (r *Router) key(s *slot) []byte {
	address := r.address(s.index, 2).As4()
	return append(padded(r.machineLink(s.index)), address[:]...)
}
