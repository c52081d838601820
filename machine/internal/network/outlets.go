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
	refusalsPerSecond = 200 // answers to what one machine must not send; beyond them it hears nothing
	refusalsBurst     = 400

	openMark = 0 // of connections that were let out under allow_all
)

// outlet is what one machine may reach. Every connection that is let out gets the mark of the outlet, and its packets pass for as long as that is the
// machine's: after a change each connection is asked for anew at its next packet, in whichever direction.
type outlet struct {
	matcher *egress.Matcher
	mark    uint32
	grants  map[netip.Addr]*grant
	counts  bool // a chain and sets that count what is refused are there
	failed  bool // it stands in for a policy that could not be read
}

func openOutlet() outlet {
	return outlet{matcher: egress.NewMatcher(egress.Default()), mark: openMark, grants: map[netip.Addr]*grant{}}
}

// with is the outlet under another policy. Addresses of names stay known: those of names that are still allowed stay reachable.
func (o outlet) with(p wire.EgressPolicy) outlet {
	next := outlet{matcher: egress.NewMatcher(p), mark: openMark, grants: maps.Clone(o.grants), counts: o.counts}
	for !next.matcher.IsOpen() && (next.mark == openMark || next.mark == o.mark) {
		next.mark = rand.Uint32()
	}
	return next
}

func (o outlet) isAllowlist() bool { return o.matcher.Policy.Mode == wire.EgressAllowlist }

// outlets are the sets that lead a connection to what is written for its machine, by the machine's address.
type outlets struct {
	out, in  *nftables.Set // what happens to a packet of a connection that is new, or has another mark
	fresh    *nftables.Set // address . mark: connections that pass
	refusers *nftables.Set // where refused packets of machines are counted
	refusals *nftables.Set // how fast they are answered
	proxied  *nftables.Set // address . port: what happens to connections that machines begin to ports of secrets
}

var (
	markedType = nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeMark)
	portType   = nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService)
)

const (
	chainOpen     = "open"
	chainAdmitted = "admitted"
	chainRefused  = "refused"
	// Whoever sends to a machine over a connection that is no longer allowed is told; the machine is when it sends.
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

// writeOutlets puts in what all machines share, and each connected machine's own.
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

// connectedOutlets are copies: whoever is busy with a slot may change it meanwhile.
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

// writeOutlet puts in all that is a machine's own, but what counts its refusals, where that is there.
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

// removeElements lets the machine's connections lead nowhere. removeOwn takes away what they led to.
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

// removeChains empties all before it removes any: a chain that another one leads to stays.
func removeChains(conn *nftables.Conn, table *nftables.Table, names ...string) {
	for _, name := range names {
		conn.FlushChain(&nftables.Chain{Table: table, Name: name})
	}
	for _, name := range names {
		conn.DelChain(&nftables.Chain{Table: table, Name: name})
	}
}

// Names of what is a machine's own. With its mark, so that a policy is put in beside the one that it replaces.
func policyOf(s *slot, o outlet) string { return fmt.Sprintf("policy_%d_%08x", s.index, o.mark) }
func refuserOf(s *slot) string          { return fmt.Sprintf("refused_%d", s.index) }

func (r *Router) namesOf(s *slot, o outlet) *nftables.Set {
	return &nftables.Set{Table: r.rules.machines.Table, Name: fmt.Sprintf("%s%d_%08x", namesPrefix, s.index, o.mark), KeyType: portType, Concatenation: true, HasTimeout: true}
}

func (r *Router) networksOf(s *slot, o outlet) *nftables.Set {
	return &nftables.Set{Table: r.rules.machines.Table, Name: fmt.Sprintf("networks_%d_%08x", s.index, o.mark), KeyType: nftables.TypeIPAddr, Interval: true}
}

const namesPrefix = "names_"
