package network

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/egress"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	refusalsPerSecond = 200 // rejects per machine; above this rate packets are dropped silently
	refusalsBurst     = 400

	openMark = 0 // the mark of connections allowed under allow_all
)

// outlet is one machine's policy. Allowed connections have its mark and pass while that mark is current. After a
// change, the next packet in either direction is checked again.
type outlet struct {
	matcher *egress.Matcher
	mark    uint32
	grants  map[netip.Addr]*grant
	counts  bool // a chain and sets exist that count refusals
	failed  bool // the stored policy could not be read, so this one replaces it
}

func openOutlet() outlet {
	return outlet{matcher: egress.NewMatcher(egress.Default()), mark: openMark, grants: map[netip.Addr]*grant{}}
}

// with keeps the grants, so that addresses of names that the new policy allows remain reachable.
func (o outlet) with(p wire.HostEgress) outlet {
	next := outlet{matcher: egress.NewMatcher(p), mark: openMark, grants: maps.Clone(o.grants), counts: o.counts}
	for !next.matcher.IsOpen() && (next.mark == openMark || next.mark == o.mark) {
		next.mark = rand.Uint32()
	}
	return next
}

func (o outlet) isAllowlist() bool { return o.matcher.Policy.Mode == wire.EgressAllowlist }

type outlets struct {
	out, in  *nftables.Set // verdicts for packets of connections without the current mark
	fresh    *nftables.Set // address . mark: connections with these pass
	refusers *nftables.Set // verdicts that lead a machine's refused packets to its counters
	refusals *nftables.Set // rate limit of rejects
	proxied  *nftables.Set // address . port: verdicts for connections to secret ports
}

var (
	markedType = nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeMark)
	portType   = nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService)
)

const (
	chainOpen     = "open"
	chainAdmitted = "admitted"
	chainRefused  = "refused"
	// On a forbidden connection, the peer gets a reject at once, and the machine when it sends.
	chainRefusedIn = "refused_in"
	chainSpecial   = "refused_special"
)

func (o *outlets) define(table *nftables.Table) {
	verdicts := func(name string) *nftables.Set {
		return &nftables.Set{Table: table, Name: name, IsMap: true, KeyType: nftables.TypeIPAddr, DataType: nftables.TypeVerdict}
	}
	o.proxied = verdicts("proxied")
	o.proxied.KeyType, o.proxied.Concatenation = portType, true
	o.out, o.in, o.refusers = verdicts("out"), verdicts("in"), verdicts("refusers")
	o.fresh = &nftables.Set{Table: table, Name: "fresh", KeyType: markedType, Concatenation: true}
	o.refusals = &nftables.Set{Table: table, Name: "refusals", KeyType: nftables.TypeIPAddr, Dynamic: true, Size: machinesMax}
}

func (r *Router) writeOutlets(conn *nftables.Conn, table *nftables.Table) error {
	o := &r.rules.outlets
	for _, set := range []*nftables.Set{o.out, o.in, o.fresh, o.refusers, o.refusals, o.proxied} {
		if err := conn.AddSet(set, nil); err != nil {
			return err
		}
	}
	newFlows := r.rules.limits.newFlows.Name
	writeChain(conn, table, chainAdmitted, rule(state(expr.CtStateBitNEW), goTo(newFlows)), accept())
	writeChain(conn, table, chainOpen, rule(mark(openMark), goTo(chainAdmitted)))
	writeChain(conn, table, chainRefused,
		rule(faster(o.refusals, refusalsPerSecond, refusalsBurst), drop()),
		rule(protocol(unix.IPPROTO_TCP), reset()),
		prohibited())
	writeChain(conn, table, chainRefusedIn, rule(protocol(unix.IPPROTO_TCP), reset()), drop())
	writeChain(conn, table, chainProxied, toAddress(r.nameserver(), SecretsPort))
	writeChain(conn, table, chainToProxy, rule(state(expr.CtStateBitNEW), goTo(r.rules.limits.newProxied.Name)), accept())
	writeChain(conn, table, chainSpecial, outwards.decide(o.refusers), goTo(chainRefused))
	for s, outlet := range r.connectedOutlets() {
		if outlet.counts {
			if err := r.writeRefuser(conn, s); err != nil {
				return err
			}
		}
		if err := r.writeOutlet(conn, s, outlet); err != nil {
			return err
		}
	}
	return nil
}

func writeChain(conn *nftables.Conn, table *nftables.Table, name string, list ...words) {
	chain := conn.AddChain(&nftables.Chain{Table: table, Name: name})
	for _, exprs := range list {
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: exprs})
	}
}

// connectedOutlets returns copies, because the holder of a slot's lock may change the originals.
func (r *Router) connectedOutlets() map[*slot]outlet {
	r.mu.RLock()
	defer r.mu.RUnlock()
	found := map[*slot]outlet{}
	for _, s := range r.slots {
		if s.connected {
			copied := s.outlet
			copied.grants = map[netip.Addr]*grant{}
			for address, known := range s.outlet.grants {
				copied.grants[address] = &grant{until: maps.Clone(known.until)}
			}
			found[s] = copied
		}
	}
	return found
}

func (r *Router) writeOutlet(conn *nftables.Conn, s *slot, o outlet) error {
	sets, machine := &r.rules.outlets, r.address(s.index, 2)
	out, in := chainOpen, chainOpen
	if !o.matcher.IsOpen() {
		out, in = refuserOf(s), chainRefusedIn
	}
	if o.isAllowlist() {
		out, in = policyOf(s, o), policyOf(s, o)+"_in"
		if err := r.writeAllowlist(conn, s, o); err != nil {
			return err
		}
	}
	return joinFirst(
		withElements(conn.SetAddElements, sets.proxied, r.proxiedElements(s, o)),
		conn.SetAddElements(sets.out, leadsTo(machine, out)),
		conn.SetAddElements(sets.in, leadsTo(machine, in)),
		conn.SetAddElements(sets.fresh, []nftables.SetElement{{Key: markedKey(machine, o.mark)}}))
}

func leadsTo(machine netip.Addr, chain string) []nftables.SetElement {
	return []nftables.SetElement{{Key: addressKey(machine), VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: chain}}}
}

func joinFirst(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Router) writeAllowlist(conn *nftables.Conn, s *slot, o outlet) error {
	names := r.namesOf(s, o)
	if err := conn.AddSet(names, nil); err != nil {
		return err
	}
	if err := addNames(conn, names, o.elements(time.Now())); err != nil {
		return err
	}
	table := names.Table
	pass := policyOf(s, o) + "_pass"
	writeChain(conn, table, pass, rule(mark(o.mark), goTo(chainAdmitted)))
	var networks *nftables.Set
	if list := o.matcher.Networks(); len(list) > 0 {
		networks = r.networksOf(s, o)
		if err := conn.AddSet(networks, intervals(spansOf(list))); err != nil {
			return err
		}
	}
	if len(o.matcher.Policy.SecretPorts) > 0 {
		writeChain(conn, table, policyOf(s, o)+proxiedSuffix, proxyWhatIsAllowed(o, names, networks)...)
	}
	write := func(name string, way heading, refused string) {
		rules := []words{rule(protocol(unix.IPPROTO_TCP), way.otherAndPortIn(names), goTo(pass))}
		if networks != nil {
			rules = append(rules, rule(protocol(unix.IPPROTO_TCP), way.otherIn(networks), goTo(pass)))
		}
		writeChain(conn, table, name, append(rules, goTo(refused))...)
	}
	write(policyOf(s, o), outwards, refuserOf(s))
	write(policyOf(s, o)+"_in", inwards, chainRefusedIn)
	return nil
}

func (r *Router) removeElements(conn *nftables.Conn, s *slot, o outlet) error {
	sets, machine := &r.rules.outlets, r.address(s.index, 2)
	return joinFirst(
		withElements(conn.SetDeleteElements, sets.proxied, keysOf(r.proxiedElements(s, o))),
		conn.SetDeleteElements(sets.out, element(addressKey(machine))),
		conn.SetDeleteElements(sets.in, element(addressKey(machine))),
		conn.SetDeleteElements(sets.fresh, element(markedKey(machine, o.mark))))
}

func (r *Router) removeOwn(conn *nftables.Conn, s *slot, o outlet) {
	if !o.isAllowlist() {
		return
	}
	names := r.namesOf(s, o)
	own := []string{policyOf(s, o), policyOf(s, o) + "_in", policyOf(s, o) + "_pass"}
	if len(o.matcher.Policy.SecretPorts) > 0 {
		own = append(own, policyOf(s, o)+proxiedSuffix)
	}
	removeChains(conn, names.Table, own...)
	conn.DelSet(names)
	if len(o.matcher.Networks()) > 0 {
		conn.DelSet(r.networksOf(s, o))
	}
}

// removeChains empties all chains first, because a chain that a rule refers to cannot be removed.
func removeChains(conn *nftables.Conn, table *nftables.Table, names ...string) {
	for _, name := range names {
		conn.FlushChain(&nftables.Chain{Table: table, Name: name})
	}
	for _, name := range names {
		conn.DelChain(&nftables.Chain{Table: table, Name: name})
	}
}

// The name contains the mark, so that a new policy can exist next to the old one.
func policyOf(s *slot, o outlet) string { return fmt.Sprintf("policy_%d_%08x", s.index, o.mark) }
func refuserOf(s *slot) string          { return fmt.Sprintf("refused_%d", s.index) }

func (r *Router) namesOf(s *slot, o outlet) *nftables.Set {
	return &nftables.Set{Table: r.rules.machines.Table, Name: fmt.Sprintf("%s%d_%08x", namesPrefix, s.index, o.mark), KeyType: portType, Concatenation: true, HasTimeout: true}
}

func (r *Router) networksOf(s *slot, o outlet) *nftables.Set {
	return &nftables.Set{Table: r.rules.machines.Table, Name: fmt.Sprintf("networks_%d_%08x", s.index, o.mark), KeyType: nftables.TypeIPAddr, Interval: true}
}

const namesPrefix = "names_"
