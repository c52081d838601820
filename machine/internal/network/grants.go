package network

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/berth-dev/berth/machine/internal/egress"
)

const (
	// The addresses of a name are reachable for twice the time that the answer may be used, within these bounds. So a question that comes
	// again within that time mostly changes nothing.
	usableMin = 30 * time.Second
	UsableMax = 30 * time.Minute
	// An address whose time ends this soon is looked at: it stays while a connection to it lasts, so that a change of the policy cuts none
	// that is still allowed.
	keepAhead  = 30 * time.Second
	grantsEach = 10 * time.Second // between two looks
	// expiryDoubt: the kernel's clock may not have taken yet what ours has.
	expiryDoubt = 5 * time.Second
	// forgetAfter is how long it is known which name a refused address had.
	forgetAfter = time.Hour

	grantElementsMax   = 512  // of one answer: ports times addresses
	outletElementsMax  = 8192 // of one machine
	outletAddressesMax = 1024
	outletAddressesMin = 64
	addressNamesMax    = 64 // of one address
	grantsPerSecond    = 50 // of one machine, beyond those that change nothing
	grantsBurst        = 250

	namesBatch   = 100 // a comment holds 254 bytes, and one netlink attribute 64 KiB
	commentBytes = 250
)

var (
	// ErrNotAllowed is of a name that the machine may not ask for.
	ErrNotAllowed = errors.New("the machine's policy does not allow the name")
	errTooFast    = errors.New("the machine gets new addresses too fast")
)

// grant is an address that a machine was told of: for which names, and until when each counts.
type grant struct{ until map[string]time.Time }

// Grant lets a machine connect to the addresses that a name has, port by port as its policy says, before it is told of them. Addresses that no machine
// reaches are left out by the caller, and opened by nobody.
func (r *Router) Grant(machine netip.Addr, name string, addresses []netip.Addr, usable time.Duration) error {
	r.mu.RLock()
	s := r.byIP[machine]
	r.mu.RUnlock()
	if s == nil {
		return ErrUnknown
	}
	s.busy.Lock()
	defer s.busy.Unlock()
	if r.slotNamed(s.name) != s || !s.connected { // released, or not let out yet
		return ErrUnknown
	}
	name, ok := egress.Canonical(name)
	ports := s.outlet.matcher.Ports(name)
	if !ok || len(ports) == 0 {
		return ErrNotAllowed
	}
	usable = min(max(usable, usableMin), UsableMax)
	now := time.Now()
	due := r.dueAddresses(s, name, addresses, now.Add(usable))
	if len(due) == 0 {
		return nil
	}
	if s.pace == nil {
		s.pace = rate.NewLimiter(grantsPerSecond, grantsBurst)
	}
	if !s.pace.Allow() {
		return errTooFast
	}
	due = due[:min(len(due), max(1, grantElementsMax/len(ports)))]
	return r.extend(s, map[string][]netip.Addr{name: due}, now, 2*usable)
}

func (r *Router) slotNamed(name string) *slot {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.slots[name]
}

// dueAddresses are those that would not stay reachable for as long as the answer may be used.
func (r *Router) dueAddresses(s *slot, name string, addresses []netip.Addr, until time.Time) []netip.Addr {
	blocked := blockedNetworks(r.config)
	var due []netip.Addr
	for _, address := range addresses {
		known := s.outlet.grants[address]
		switch {
		case !address.Is4() || slices.ContainsFunc(blocked, func(network netip.Prefix) bool { return network.Contains(address) }):
		case known != nil && known.until[name].After(until):
		case slices.Contains(due, address):
		default:
			due = append(due, address)
		}
	}
	return due
}

// extend makes addresses of names reachable for a time from now on, in one transaction. The caller is busy with the slot.
func (r *Router) extend(s *slot, names map[string][]netip.Addr, now time.Time, last time.Duration) error {
	outlet := s.outlet
	changed := map[netip.Addr]bool{}
	for _, addresses := range names {
		for _, address := range addresses {
			changed[address] = true
		}
	}
	for _, address := range outlet.crowdedOut(len(changed), now) {
		if !changed[address] {
			changed[address] = true
			names[""] = append(names[""], address)
		}
	}
	before := outlet.elementsOf(changed, now.Add(-expiryDoubt))
	r.mu.Lock()
	for name, addresses := range names {
		for _, address := range addresses {
			known := outlet.grants[address]
			switch {
			case name == "":
				delete(outlet.grants, address)
				continue
			case known == nil:
				known = &grant{until: map[string]time.Time{}}
				outlet.grants[address] = known
			}
			known.until[name] = now.Add(last)
			known.prune(now)
		}
	}
	r.mu.Unlock()
	if err := r.putElements(r.namesOf(s, outlet), before, outlet.elementsOf(changed, now)); err != nil {
		return r.reload(err) // what is remembered and what is there would differ
	}
	return nil
}

// crowdedOut are the addresses that end first, where there would be more than a machine may have.
func (o outlet) crowdedOut(more int, now time.Time) []netip.Addr {
	most := min(max(outletElementsMax/max(1, o.matcher.PortsMax()), outletAddressesMin), outletAddressesMax)
	if len(o.grants)+more <= most {
		return nil
	}
	order := slices.SortedFunc(maps.Keys(o.grants), func(a, b netip.Addr) int { return o.grants[a].last().Compare(o.grants[b].last()) })
	return order[:min(len(o.grants)+more-most, len(order))]
}

// prune forgets names: long ended ones, and beyond the bound those that end first.
func (g *grant) prune(now time.Time) {
	maps.DeleteFunc(g.until, func(_ string, until time.Time) bool { return until.Before(now.Add(-forgetAfter)) })
	if len(g.until) > addressNamesMax {
		delete(g.until, slices.MinFunc(slices.Collect(maps.Keys(g.until)), func(a, b string) int { return g.until[a].Compare(g.until[b]) }))
	}
}

func (g *grant) last() (last time.Time) {
	for _, until := range g.until {
		if until.After(last) {
			last = until
		}
	}
	return last
}

// elements are what the set of a machine's addresses holds at a time.
func (o outlet) elements(now time.Time) []nftables.SetElement {
	all := map[netip.Addr]bool{}
	for address := range o.grants {
		all[address] = true
	}
	return o.elementsOf(all, now)
}

// elementsOf names in each element what it is there for, so that the next hostd can read it.
func (o outlet) elementsOf(addresses map[netip.Addr]bool, now time.Time) (list []nftables.SetElement) {
	for address := range addresses {
		known := o.grants[address]
		if known == nil {
			continue
		}
		names, until := map[uint16][]string{}, map[uint16]time.Time{}
		for _, name := range slices.Sorted(maps.Keys(known.until)) {
			if !known.until[name].After(now) {
				continue
			}
			for _, port := range o.matcher.Ports(name) {
				names[port] = append(names[port], name)
				if known.until[name].After(until[port]) {
					until[port] = known.until[name]
				}
			}
		}
		for port := range names {
			left := max(time.Second, until[port].Sub(now).Truncate(time.Millisecond))
			list = append(list, nftables.SetElement{Key: portKey(address, port), Timeout: left, Comment: asComment(names[port])})
		}
	}
	slices.SortFunc(list, func(a, b nftables.SetElement) int { return cmp.Compare(string(a.Key), string(b.Key)) })
	return list
}

// asComment leaves out what does not fit: such a name is asked for again.
func asComment(names []string) string {
	text := ""
	for _, name := range names {
		if len(text)+len(name)+1 <= commentBytes {
			text = strings.TrimSpace(text + " " + name)
		}
	}
	return text
}

// keepGrants extends what ends soon while a connection to it lasts, and forgets what ended long ago.
func (r *Router) keepGrants(now time.Time) error {
	ending := r.endingGrants(now)
	if len(ending) == 0 {
		return nil
	}
	used, err := r.reachedAddresses()
	if err != nil {
		return err
	}
	for s, machine := range ending {
		err = errors.Join(err, r.keepGrantsOf(s, used[machine], now))
	}
	return err
}

// endingGrants are the machines with a grant that ends soon, each with its address.
func (r *Router) endingGrants(now time.Time) map[*slot]netip.Addr {
	r.mu.RLock()
	defer r.mu.RUnlock()
	found := map[*slot]netip.Addr{}
	for _, s := range r.slots {
		for _, known := range s.outlet.grants {
			if s.connected && s.outlet.isAllowlist() && known.last().Before(now.Add(keepAhead)) {
				found[s] = r.address(s.index, 2)
				break
			}
		}
	}
	return found
}

// reachedAddresses are what machines have connections to, by machine.
func (r *Router) reachedAddresses() (map[netip.Addr]map[netip.Addr]bool, error) {
	var flows []*netlink.ConntrackFlow
	var err error
	for range adoptRetries {
		flows, err = r.links.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read connections: %w", err)
	}
	found := map[netip.Addr]map[netip.Addr]bool{}
	for _, flow := range flows {
		machine, _ := netip.AddrFromSlice(flow.Forward.SrcIP.To4())
		to, _ := netip.AddrFromSlice(flow.Forward.DstIP.To4())
		if found[machine] == nil {
			found[machine] = map[netip.Addr]bool{}
		}
		found[machine][to] = true
	}
	return found, nil
}

func (r *Router) keepGrantsOf(s *slot, used map[netip.Addr]bool, now time.Time) error {
	s.busy.Lock()
	defer s.busy.Unlock()
	if r.slotNamed(s.name) != s || !s.connected || !s.outlet.isAllowlist() {
		return nil
	}
	names := map[string][]netip.Addr{}
	r.mu.Lock()
	for address, known := range s.outlet.grants {
		if known.last().Before(now.Add(-forgetAfter)) {
			delete(s.outlet.grants, address)
		}
		for name, until := range known.until {
			if used[address] && until.After(now.Add(-expiryDoubt)) && until.Before(now.Add(keepAhead)) {
				names[name] = append(names[name], address)
			}
		}
	}
	r.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	return r.extend(s, names, now, 2*usableMin)
}

// putElements replaces some elements by others at once. One of the old ones may have ended meanwhile, which undoes the whole: then they are replaced one by
// one.
func (r *Router) putElements(set *nftables.Set, old, put []nftables.SetElement) error {
	err := r.replaceElements(set, old, put)
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	for _, element := range old {
		if err := r.rules.remove(set, element.Key); err != nil {
			return err
		}
	}
	if err := r.replaceElements(set, nil, put); err != nil {
		return fmt.Errorf("let a machine reach the addresses of a name: %w", err)
	}
	return nil
}

func (r *Router) replaceElements(set *nftables.Set, old, put []nftables.SetElement) error {
	if len(old)+len(put) == 0 {
		return nil
	}
	return r.rules.change(func() error {
		for batch := range slices.Chunk(keysOf(old), elementsBatch) {
			if err := r.rules.conn.SetDeleteElements(set, batch); err != nil {
				return err
			}
		}
		return addNames(r.rules.conn, set, put)
	})
}

func keysOf(elements []nftables.SetElement) (keys []nftables.SetElement) {
	for _, element := range elements {
		keys = append(keys, nftables.SetElement{Key: element.Key})
	}
	return keys
}

func addNames(conn *nftables.Conn, set *nftables.Set, elements []nftables.SetElement) error {
	for batch := range slices.Chunk(elements, namesBatch) {
		if err := conn.SetAddElements(set, batch); err != nil {
			return err
		}
	}
	return nil
}
