package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	elementsBatch = 500 // one netlink attribute holds 64 KiB
	dnsPort       = 53
)

type rules struct {
	mu        sync.Mutex
	namespace *os.File
	conn      *nftables.Conn
	asks      *netlink.Conn
	machines  *nftables.Set // link . address: allowed sources
	connected *nftables.Set // link . address: machines that may use the uplink
	limits    limits
	outlets   outlets
	traffic   traffic

	generation uint32 // number of the rules after this process's last transaction
	broken     atomic.Bool
}

var pairType = nftables.MustConcatSetType(nftables.TypeIFName, nftables.TypeIPAddr)

func (r *Router) openRules() (err error) {
	r.rules.namespace = r.namespace
	if err := r.rules.reopen(); err != nil {
		return err
	}
	if r.rules.generation, err = r.rules.readGeneration(); err != nil {
		return err
	}
	table := r.defineSets()
	if err := r.adoptConnected(table); err != nil {
		return err
	}
	if err := r.loadRules(); err != nil {
		return err
	}
	return r.forgetStrayTraffic()
}

func (r *Router) defineSets() *nftables.Table {
	table := &nftables.Table{Name: r.table(), Family: nftables.TableFamilyIPv4}
	r.rules.machines = &nftables.Set{Table: table, Name: "machines", KeyType: pairType, Concatenation: true}
	r.rules.connected = &nftables.Set{Table: table, Name: "connected", KeyType: pairType, Concatenation: true}
	r.rules.outlets.define(table)
	r.defineTraffic()
	return table
}

func (r *Router) loadRules() error {
	err := r.rules.change(func() error {
		table, conn := r.rules.machines.Table, r.rules.conn
		replaceTable(conn, table)
		r.closeIPv6(conn)
		if err := r.fillSets(conn); err != nil {
			return err
		}
		if err := r.writeTraffic(conn); err != nil {
			return err
		}
		return r.writeRules(conn, table)
	})
	if err != nil {
		return fmt.Errorf("load the router's rules: %w", err)
	}
	return r.rules.takeGeneration()
}

// closeIPv6 also removes the table of an older version, which had one for both families.
func (r *Router) closeIPv6(conn *nftables.Conn) {
	older := &nftables.Table{Name: r.table(), Family: nftables.TableFamilyINet}
	conn.AddTable(older)
	conn.DelTable(older)
	table := &nftables.Table{Name: r.table(), Family: nftables.TableFamilyIPv6}
	replaceTable(conn, table)
	arriving := conn.AddChain(baseChain(table, "arriving", nftables.ChainHookPrerouting, nftables.ChainPriorityRaw, nftables.ChainPolicyDrop))
	conn.AddRule(&nftables.Rule{Table: table, Chain: arriving, Exprs: drop()})
}

// replaceTable empties a table that may or may not exist: it is added, so that the deletion succeeds, and added again.
func replaceTable(conn *nftables.Conn, table *nftables.Table) {
	conn.AddTable(table)
	conn.DelTable(table)
	conn.AddTable(table)
}

func (r *Router) adoptConnected(table *nftables.Table) error {
	tables, err := r.rules.conn.ListTables()
	if err != nil {
		return fmt.Errorf("read the router's tables: %w", err)
	}
	connected := *r.rules.connected
	at := slices.IndexFunc(tables, func(known *nftables.Table) bool {
		return known.Name == table.Name && known.Family != nftables.TableFamilyIPv6
	})
	if at < 0 {
		return nil
	}
	connected.Table = tables[at]
	elements, err := r.rules.conn.GetSetElements(&connected)
	if err != nil {
		return fmt.Errorf("read who is connected: %w", err)
	}
	for _, element := range elements {
		if len(element.Key) != int(pairType.Bytes) {
			continue
		}
		address, _ := netip.AddrFromSlice(element.Key[unix.IFNAMSIZ:])
		if s := r.byIP[address]; s != nil {
			s.connected, s.outlet.counts = true, !s.outlet.matcher.IsOpen()
		}
	}
	return r.adoptOutlets(connected.Table)
}

func (r *Router) fillSets(conn *nftables.Conn) error {
	var machines, connected []nftables.SetElement
	r.mu.RLock()
	for _, s := range r.slots {
		if s.index == nowhere { // it is being released
			continue
		}
		machines = append(machines, element(r.key(s))...)
		if s.connected {
			connected = append(connected, element(r.key(s))...)
		}
	}
	r.mu.RUnlock()
	return errors.Join(addSet(conn, r.rules.machines, machines), addSet(conn, r.rules.connected, connected))
}

func addSet(conn *nftables.Conn, set *nftables.Set, elements []nftables.SetElement) error {
	if err := conn.AddSet(set, nil); err != nil {
		return err
	}
	for len(elements) > 0 {
		part := elements[:min(len(elements), elementsBatch)]
		if err := conn.SetAddElements(set, part); err != nil {
			return err
		}
		elements = elements[len(part):]
	}
	return nil
}

func (r *Router) writeRules(conn *nftables.Conn, table *nftables.Table) error {
	special := &nftables.Set{Table: table, Name: "special", KeyType: nftables.TypeIPAddr, Interval: true}
	if err := conn.AddSet(special, intervals(specialRanges(r.config))); err != nil {
		return err
	}
	if err := r.rules.limits.write(conn, table, r.flowsOfEach()); err != nil {
		return err
	}
	if err := r.writeOutlets(conn, table); err != nil {
		return err
	}
	write := func(chain *nftables.Chain, list []words) {
		conn.AddChain(chain)
		for _, exprs := range list {
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: exprs})
		}
	}
	write(baseChain(table, "arriving", nftables.ChainHookPrerouting, nftables.ChainPriorityRaw, nftables.ChainPolicyAccept), r.arriving())
	write(baseChain(table, "answers", nftables.ChainHookOutput, nftables.ChainPriorityRaw, nftables.ChainPolicyAccept), r.answers())
	write(baseChain(table, "from_proxy", nftables.ChainHookOutput, nftables.ChainPriorityFilter, nftables.ChainPolicyAccept), r.fromSecrets())
	write(baseChain(table, "questions", nftables.ChainHookInput, nftables.ChainPriorityFilter, nftables.ChainPolicyDrop), r.questions())
	write(baseChain(table, "passing", nftables.ChainHookForward, nftables.ChainPriorityFilter, nftables.ChainPolicyDrop), r.passing(special))
	leading := baseChain(table, "leading", nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest, nftables.ChainPolicyAccept)
	leading.Type = nftables.ChainTypeNAT
	write(leading, r.leading(special))
	if r.uplinkIsNamespace() {
		chain := baseChain(table, "leaving", nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource, nftables.ChainPolicyAccept)
		chain.Type = nftables.ChainTypeNAT
		write(chain, []words{rule(to(r.name("u")), masquerade())})
	}
	return nil
}

func baseChain(table *nftables.Table, name string, hook *nftables.ChainHook, priority *nftables.ChainPriority, policy nftables.ChainPolicy) *nftables.Chain {
	return &nftables.Chain{Table: table, Name: name, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: priority, Policy: &policy}
}

// These rules come before connection tracking. So spoofed packets cost little, and DNS questions cannot fill the
// tracking table.
func (r *Router) arriving() []words {
	machines := fromAny(r.name("m"))
	return []words{
		rule(machines, senderNotIn(r.rules.machines), drop()),
		rule(machines, faster(r.rules.limits.packets, r.packetsPerSecond(), uint32(r.packetsPerSecond()/2)), drop()),
		rule(machines, daddrIs(r.nameserver()), protocol(unix.IPPROTO_UDP), dport(dnsPort), faster(r.rules.limits.questions, questionsPerSecond, questionsBurst), drop()),
		rule(machines, daddrIs(r.nameserver()), protocol(unix.IPPROTO_UDP), dport(dnsPort), notrack()),
	}
}

func (r *Router) answers() []words {
	return []words{rule(toAny(r.name("m")), saddrIs(r.nameserver()), protocol(unix.IPPROTO_UDP), sport(dnsPort), notrack())}
}

// The router accepts only DNS. A machine that is not connected is rejected at once, so programs do not wait.
func (r *Router) questions() []words {
	toNames := rule(fromAny(r.name("m")), daddrIs(r.nameserver()))
	datagram, stream := rule(toNames, protocol(unix.IPPROTO_UDP), dport(dnsPort)), rule(toNames, protocol(unix.IPPROTO_TCP), dport(dnsPort))
	return []words{
		rule(from("lo"), accept()),
		rule(datagram, senderIn(r.rules.connected), accept()),
		rule(datagram, unreachable()),
		rule(r.toSecrets(), outwards.marked(r.rules.outlets.fresh), goTo(chainToProxy)),
		rule(r.toSecrets(), reset()),
		rule(state(established), accept()),
		rule(stream, senderNotIn(r.rules.connected), reset()),
		rule(stream, state(expr.CtStateBitNEW), over(r.rules.limits.streams, questionStreamsMax), drop()),
		rule(stream, state(expr.CtStateBitNEW), accept()),
		drop(),
	}
}

// A packet of a connection with the current mark costs one lookup, however many rules there are.
func (r *Router) passing(special *nftables.Set) []words {
	machines, toMachines := fromAny(r.name("m")), toAny(r.name("m"))
	list := []words{
		rule(state(expr.CtStateBitINVALID), drop()),
		rule(from(r.name("r")), toMachines, saddrIs(r.hostAddress()), state(expr.CtStateBitNEW|established), accept()),
		rule(machines, to(r.name("r")), daddrIs(r.hostAddress()), state(established), accept()),
		// A late packet of a connection that the host has forgotten is only dropped. It is no attempt of the machine to
		// reach the host, so it must not be counted as refused.
		rule(machines, daddrIs(r.hostAddress()), protocol(unix.IPPROTO_TCP), notOpening(), drop()),
		rule(machines, daddrInSet(special), goTo(chainSpecial)),
	}
	if uplink := r.uplinkLink(); uplink != "" {
		sets := r.rules.outlets
		out, in := rule(machines, to(uplink)), rule(from(uplink), toMachines, state(established))
		list = append(list,
			rule(out, state(established), outwards.marked(sets.fresh), accept()),
			rule(out, senderIn(r.rules.connected), state(expr.CtStateBitNEW|established), outwards.decide(sets.out)),
			rule(in, inwards.marked(sets.fresh), accept()),
			rule(in, receiverIn(r.rules.connected), inwards.decide(sets.in)),
		)
	}
	return append(list, drop())
}

func (r *Router) uplinkLink() string {
	switch r.config.Uplink {
	case UplinkNone:
		return ""
	case UplinkHost:
		return r.name("r")
	default:
		return r.name("u")
	}
}

func element(key []byte) []nftables.SetElement { return []nftables.SetElement{{Key: key}} }

func (t *rules) add(set *nftables.Set, key []byte) error {
	return t.change(func() error { return t.conn.SetAddElements(set, element(key)) })
}

func (t *rules) remove(set *nftables.Set, key []byte) error {
	err := t.change(func() error { return t.conn.SetDeleteElements(set, element(key)) })
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// change runs do and sends its commands in one transaction, which must not be empty. After an error the socket is
// replaced, because it may contain unread answers.
func (t *rules) change(do func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ensureOpen(); err != nil {
		return err
	}
	err := do()
	if err == nil {
		err = t.conn.Flush()
	}
	if err != nil {
		return errors.Join(err, t.reopen())
	}
	t.generation++
	return nil
}

func (t *rules) ensureOpen() error {
	if t.conn == nil || t.asks == nil { // an earlier reopen failed
		return t.reopen()
	}
	return nil
}

// The receive buffer must hold an answer for each chain, set, rule and batch of a transaction.
const socketBytes = 16 << 20

func (t *rules) reopen() error {
	t.close()
	return inNamespace(t.namespace, func() (err error) {
		if t.conn, err = nftables.New(nftables.AsLasting(), nftables.WithSockOptions(largeBuffers)); err != nil {
			return err
		}
		t.asks, err = netlink.Dial(unix.NETLINK_NETFILTER, nil)
		return err
	})
}

func largeBuffers(conn *netlink.Conn) error {
	return errors.Join(conn.SetReadBuffer(socketBytes), conn.SetWriteBuffer(socketBytes))
}

func (t *rules) close() {
	if t.conn != nil {
		_ = t.conn.CloseLasting() // nothing is pending, or the transaction is abandoned on purpose
	}
	if t.asks != nil {
		_ = t.asks.Close()
	}
	t.conn, t.asks = nil, nil
}
