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
	// An address is reachable for twice the TTL, within these bounds. So a repeated question mostly changes no rule.
	usableMin = 30 * time.Second
	UsableMax = 30 * time.Minute
	// Grants in use are extended this long before they expire. An expired grant would let a policy change cut an
	// allowed connection.
	keepAhead  = 30 * time.Second
	grantsEach = 10 * time.Second
	// Expiry allows for this difference between the kernel's clock and this process's.
	expiryDoubt = 5 * time.Second
	forgetAfter = time.Hour

	grantElementsMax   = 512 // maximum per answer: ports times addresses
	outletElementsMax  = 8192
	outletAddressesMax = 1024
	outletAddressesMin = 64
	addressNamesMax    = 64
	grantsPerSecond    = 50 // per machine; questions that change no rule are not counted
	grantsBurst        = 250

	namesBatch   = 100 // a comment holds 254 bytes, and one netlink attribute 64 KiB
	commentBytes = 250
)

var (
	ErrNotAllowed = errors.New("the machine's policy does not allow the name")
	errTooFast    = errors.New("the machine gets new addresses too fast")
)

type grant struct{ until map[string]time.Time }

// Grant opens a name's addresses, before the resolver answers the machine. It never opens blocked addresses.
func (r *Router) Grant(machine netip.Addr, name string, addresses []netip.Addr, usable time.Duration) error {
	r.mu.RLock()
	s := r.byIP[machine]
	r.mu.RUnlock()
	if s == nil {
		return ErrUnknown
	}
	s.busy.Lock()
	defer s.busy.Unlock()
	if r.slotNamed(s.name) != s || !s.connected { // it was released, or is not connected yet
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

// extend adds or renews grants. The caller must hold the slot's lock.
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
		return r.reload(err) // the rules may differ from the stored grants
	}
	return nil
}

func (o outlet) crowdedOut(more int, now time.Time) []netip.Addr {
	most := min(max(outletElementsMax/max(1, o.matcher.PortsMax()), outletAddressesMin), outletAddressesMax)
	if len(o.grants)+more <= most {
		return nil
	}
	order := slices.SortedFunc(maps.Keys(o.grants), func(a, b netip.Addr) int { return o.grants[a].last().Compare(o.grants[b].last()) })
	return order[:min(len(o.grants)+more-most, len(order))]
}

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

func (o outlet) elements(now time.Time) []nftables.SetElement {
	all := map[netip.Addr]bool{}
	for address := range o.grants {
		all[address] = true
	}
	return o.elementsOf(all, now)
}

// elementsOf stores the names in the elements' comments, from which the next hostd restores them.
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

// asComment omits names that do not fit. After a restart of hostd, the machine has to ask for these again.
func asComment(names []string) string {
	text := ""
	for _, name := range names {
		if len(text)+len(name)+1 <= commentBytes {
			text = strings.TrimSpace(text + " " + name)
		}
	}
	return text
}

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

// putElements replaces elements in one transaction. If an old element has expired, that fails, and old elements are
// removed one by one.
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
