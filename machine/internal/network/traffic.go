package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Traffic counts the bytes of allowed IP packets. Packets to and from the host are not included.
type Traffic struct{ Received, Sent int64 }

// traffic is a separate table, so that its counts survive a reload of the rules.
type traffic struct {
	table          *nftables.Table
	sent, received *nftables.Set
}

func (r *Router) defineTraffic() {
	table := &nftables.Table{Name: r.table() + "_traffic", Family: nftables.TableFamilyIPv4}
	set := func(name string) *nftables.Set {
		return &nftables.Set{Table: table, Name: name, KeyType: nftables.TypeIPAddr, Dynamic: true, Size: machinesMax}
	}
	r.rules.traffic = traffic{table, set("sent"), set("received")}
}

// Only accepted packets come here. Traffic with the host and DNS is the service's, so it is not counted.
func (r *Router) writeTraffic(conn *nftables.Conn) error {
	t := r.rules.traffic
	conn.AddTable(t.table)
	for _, set := range []*nftables.Set{t.sent, t.received} {
		if err := conn.AddSet(set, nil); err != nil {
			return err
		}
	}
	sender, receiver := fromAny(r.name("m")), toAny(r.name("m"))
	count := func(way heading, set *nftables.Set) words {
		return words{loadInto(word0, way.machine), dynamic(set, unix.NFT_DYNSET_OP_ADD, 0, &expr.Counter{}), &expr.Verdict{Kind: expr.VerdictAccept}}
	}
	out, in := count(outwards, t.sent), count(inwards, t.received)
	r.countAt(conn, "passing", nftables.ChainHookForward,
		rule(sender, translated(), out), rule(receiver, translated(), in), // redirected connections are counted, even if one end is the host's address
		rule(sender, daddrIs(r.hostAddress()), accept()), rule(receiver, saddrIs(r.hostAddress()), accept()),
		rule(sender, out), rule(receiver, in))
	r.countAt(conn, "arriving", nftables.ChainHookInput, rule(sender, translated(), out))
	r.countAt(conn, "leaving", nftables.ChainHookOutput, rule(receiver, translated(), in))
	return nil
}

func (r *Router) countAt(conn *nftables.Conn, name string, hook *nftables.ChainHook, list ...words) {
	chain := conn.AddChain(baseChain(r.rules.traffic.table, name, hook, nftables.ChainPriorityRef(*nftables.ChainPriorityFilter+1), nftables.ChainPolicyAccept))
	conn.FlushChain(chain)
	for _, exprs := range list {
		conn.AddRule(&nftables.Rule{Table: chain.Table, Chain: chain, Exprs: exprs})
	}
}

func (r *Router) Traffic(name string) (found Traffic, err error) {
	err = r.withSlot(name, func(s *slot) error {
		address := r.address(s.index, 2)
		if found.Sent, err = r.rules.bytesOf(r.rules.traffic.sent, address); err != nil {
			return err
		}
		found.Received, err = r.rules.bytesOf(r.rules.traffic.received, address)
		return err
	})
	return found, err
}

// forgetTraffic removes the counts, because the next machine at the address must start at zero.
func (r *Router) forgetTraffic(address netip.Addr) error {
	for _, set := range []*nftables.Set{r.rules.traffic.sent, r.rules.traffic.received} {
		bytes, err := r.rules.bytesOf(set, address)
		if err == nil && bytes > 0 {
			err = r.rules.remove(set, addressKey(address))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Router) forgetStrayTraffic() error {
	for _, set := range []*nftables.Set{r.rules.traffic.sent, r.rules.traffic.received} {
		elements, err := r.rules.elements(set)
		if err != nil {
			return fmt.Errorf("read the set %s: %w", set.Name, err)
		}
		for _, element := range elements {
			address, _ := netip.AddrFromSlice(element.Key)
			if r.byIP[address] != nil {
				continue
			}
			if err := r.rules.remove(set, element.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

// bytesOf asks for one element, because the set may contain thousands.
func (t *rules) bytesOf(set *nftables.Set, address netip.Addr) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ensureOpen(); err != nil {
		return 0, err
	}
	question, err := elementQuestion(set, addressKey(address))
	if err != nil {
		return 0, err
	}
	answers, err := t.asks.Execute(question)
	if errors.Is(err, unix.ENOENT) { // no packet was counted
		return 0, nil
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("read the set %s: %w", set.Name, err), t.reopen())
	}
	for _, answer := range answers {
		bytes, err := counterIn(answer.Data[min(4, len(answer.Data)):], unix.NFTA_SET_ELEM_LIST_ELEMENTS, unix.NFTA_LIST_ELEM,
			unix.NFTA_SET_ELEM_EXPR, unix.NFTA_EXPR_DATA, unix.NFTA_COUNTER_BYTES)
		if err != nil || bytes >= 0 {
			return bytes, err
		}
	}
	return 0, fmt.Errorf("the kernel did not tell the counter of %s in the set %s", address, set.Name)
}

func elementQuestion(set *nftables.Set, key []byte) (netlink.Message, error) {
	attributes := netlink.NewAttributeEncoder()
	attributes.ByteOrder = binary.BigEndian
	attributes.String(unix.NFTA_SET_ELEM_LIST_TABLE, set.Table.Name)
	attributes.String(unix.NFTA_SET_ELEM_LIST_SET, set.Name)
	nest := func(kind uint16, fill func(*netlink.AttributeEncoder) error) func(*netlink.AttributeEncoder) error {
		return func(inner *netlink.AttributeEncoder) error { inner.Nested(kind, fill); return nil }
	}
	value := func(inner *netlink.AttributeEncoder) error { inner.Bytes(unix.NFTA_DATA_VALUE, key); return nil }
	attributes.Nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, nest(unix.NFTA_LIST_ELEM, nest(unix.NFTA_SET_ELEM_KEY, value)))
	data, err := attributes.Encode()
	return netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETSETELEM, Flags: netlink.Request},
		Data:   append([]byte{unix.AF_INET, unix.NFNETLINK_V0, 0, 0}, data...)}, err
}

// counterIn returns -1 if an attribute is missing.
func counterIn(data []byte, path ...uint16) (int64, error) {
	attributes, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return -1, err
	}
	for attributes.Next() {
		if attributes.Type() != path[0] {
			continue
		}
		if len(path) > 1 {
			return counterIn(attributes.Bytes(), path[1:]...)
		}
		if bytes := attributes.Bytes(); len(bytes) == 8 {
			return int64(binary.BigEndian.Uint64(bytes)), nil
		}
	}
	return -1, attributes.Err()
}
