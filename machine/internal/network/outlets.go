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

// outlets are the sets that lead a connection to what is written for its machine, by the address that it began at.
type outlets struct {
	verdicts *nftables.Set // what happens to a connection that is new, or has another mark
	fresh    *nftables.Set // address . mark: connections that pass
	refusers *nftables.Set // where refused packets of machines are counted
	refusals *nftables.Set // how fast they are answered
}

var (
	markedType = nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeMark)
	portType   = nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService)
)

const (
	chainOpen     = "open"
	chainAdmitted = "admitted"
	chainRefused  = "refused"
	chainSpecial  = "refused_special"
)

func (o *outlets) define(table *nftables.Table) {
	verdicts := func(name string) *nftables.Set {
		return &nftables.Set{Table: table, Name: name, IsMap: true, KeyType: nftables.TypeIPAddr, DataType: nftables.TypeVerdict}
	}
	o.verdicts, o.refusers = verdicts("verdicts"), verdicts("refusers")
	o.fresh = &nftables.Set{Table: table, Name: "fresh", KeyType: markedType, Concatenation: true}
	o.refusals = &nftables.Set{Table: table, Name: "refusals", KeyType: nftables.TypeIPAddr, Dynamic: true, Size: machinesMax}
}

// writeOutlets puts in what all machines share, and each connected machine's own.
func (r *Router) writeOutlets(conn *nftables.Conn, table *nftables.Table) error {
	o := &r.rules.outlets
	for _, set := range []*nftables.Set{o.verdicts, o.fresh, o.refusers, o.refusals} {
		if err := conn.AddSet(set, nil); err != nil {
			return err
		}
	}
	newFlows := r.rules.limits.newFlows.Name
	writeChain(conn, table, chainAdmitted, rule(state(expr.CtStateBitNEW), goTo(newFlows)), accept())
	writeChain(conn, table, chainOpen, rule(mark(openMark), goTo(chainAdmitted)))
	writeChain(conn, table, chainRefused,
		rule(fasterThan(o.refusals, refusalsPerSecond, refusalsBurst), drop()),
		rule(protocol(unix.IPPROTO_TCP), reset()),
		rule(fromAny(r.name("m")), prohibited()),
		drop())
	writeChain(conn, table, chainSpecial, decide(o.refusers), goTo(chainRefused))
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
	verdict := chainOpen
	if !o.matcher.IsOpen() {
		verdict = refuserOf(s)
	}
	if o.isAllowlist() {
		verdict = policyOf(s, o)
		if err := r.writeAllowlist(conn, s, o); err != nil {
			return err
		}
	}
	return joinFirst(
		conn.SetAddElements(sets.verdicts, []nftables.SetElement{{Key: addressKey(machine), VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: verdict}}}),
		conn.SetAddElements(sets.fresh, []nftables.SetElement{{Key: markedKey(machine, o.mark)}}))
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
	rules := []words{rule(transportIs(unix.IPPROTO_TCP), targetAndPortIn(names), goTo(pass))}
	if list := o.matcher.Networks(); len(list) > 0 {
		networks := r.networksOf(s, o)
		if err := conn.AddSet(networks, intervals(spansOf(list))); err != nil {
			return err
		}
		rules = append(rules, rule(transportIs(unix.IPPROTO_TCP), targetIn(networks), goTo(pass)))
	}
	writeChain(conn, table, policyOf(s, o), append(rules, goTo(refuserOf(s)))...)
	return nil
}

// removeElements lets the machine's connections lead nowhere. removeOwn takes away what they led to.
func (r *Router) removeElements(conn *nftables.Conn, s *slot, o outlet) error {
	sets, machine := &r.rules.outlets, r.address(s.index, 2)
	return joinFirst(
		conn.SetDeleteElements(sets.verdicts, []nftables.SetElement{{Key: addressKey(machine)}}),
		conn.SetDeleteElements(sets.fresh, []nftables.SetElement{{Key: markedKey(machine, o.mark)}}))
}

func (r *Router) removeOwn(conn *nftables.Conn, s *slot, o outlet) {
	if !o.isAllowlist() {
		return
	}
	names := r.namesOf(s, o)
	removeChains(conn, names.Table, policyOf(s, o), policyOf(s, o)+"_pass")
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
