package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	refusalsKept = 24 * time.Hour
	refusalsMax  = 256 // maximum of counted addresses of one machine
)

type Refusal struct {
	Address  netip.Addr
	Port     uint16 // 0 if the protocol has no ports
	Protocol string
	Names    []string `json:"-"`
	Count    int64
	First    time.Time
	Last     time.Time
}

var refusalType = nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService)

// writeRefuser makes two sets: in one, an entry's age is the time since its last packet, in the other since its first.
func (r *Router) writeRefuser(conn *nftables.Conn, s *slot) error {
	last, first := r.refusalSets(s)
	for _, set := range []*nftables.Set{last, first} {
		if err := conn.AddSet(set, nil); err != nil {
			return err
		}
	}
	count := dynamic(last, unix.NFT_DYNSET_OP_UPDATE, refusalsKept, &expr.Counter{})
	note := dynamic(first, unix.NFT_DYNSET_OP_ADD, refusalsKept)
	key := func(port expr.Any) words {
		return words{loadInto(word0, outwards.other), &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: word1}, port}
	}
	withPort, withoutPort := key(outwards.port(word2)), key(&expr.Immediate{Register: word2, Data: make([]byte, 2)})
	other := rule(protocolNot(unix.IPPROTO_TCP), protocolNot(unix.IPPROTO_UDP), withoutPort)
	tcp, udp := rule(protocol(unix.IPPROTO_TCP), withPort), rule(protocol(unix.IPPROTO_UDP), withPort)
	var list []words
	for _, which := range []words{tcp, udp, other} {
		list = append(list, rule(which, words{count}), rule(which, words{note}))
	}
	writeChain(conn, last.Table, refuserOf(s), append(list, goTo(chainRefused))...)
	return conn.SetAddElements(r.rules.outlets.refusers, leadsTo(r.address(s.index, 2), refuserOf(s)))
}

func (r *Router) removeRefuser(conn *nftables.Conn, s *slot) error {
	last, first := r.refusalSets(s)
	err := conn.SetDeleteElements(r.rules.outlets.refusers, element(addressKey(r.address(s.index, 2))))
	removeChains(conn, last.Table, refuserOf(s))
	conn.DelSet(last)
	conn.DelSet(first)
	return err
}

func (r *Router) refusalSets(s *slot) (last, first *nftables.Set) {
	set := func(name string) *nftables.Set {
		return &nftables.Set{Table: r.rules.machines.Table, Name: fmt.Sprintf("%s_%d", name, s.index), KeyType: refusalType, Concatenation: true,
			Dynamic: true, HasTimeout: true, Timeout: refusalsKept, Size: refusalsMax}
	}
	return set("refused_last"), set("refused_first")
}

// Refusals returns a machine's refused addresses, the latest first.
func (r *Router) Refusals(name string) (list []Refusal, err error) {
	err = r.withSlot(name, func(s *slot) error {
		var counted []Refusal
		if s.outlet.counts && s.connected {
			if counted, err = r.countedRefusals(s, time.Now()); err != nil {
				return err
			}
		}
		list = r.withNames(s, s.withBegin(mergeRefusals(counted, r.pastOf(s), time.Now())))
		return nil
	})
	return list, err
}

func (r *Router) countedRefusals(s *slot, now time.Time) (list []Refusal, err error) {
	last, first := r.refusalSets(s)
	began := map[string]time.Time{}
	elements, err := r.rules.elements(first)
	if err != nil {
		return nil, err
	}
	for _, element := range elements {
		began[string(element.Key)] = now.Add(element.Expires - refusalsKept)
	}
	if elements, err = r.rules.elements(last); err != nil {
		return nil, err
	}
	for _, element := range elements {
		if len(element.Key) != 12 || element.Counter == nil {
			continue
		}
		address, _ := netip.AddrFromSlice(element.Key[:4])
		one := Refusal{Address: address, Protocol: protocolName(element.Key[4]), Port: binary.BigEndian.Uint16(element.Key[8:]), Count: int64(element.Counter.Packets),
			First: began[string(element.Key)], Last: now.Add(element.Expires - refusalsKept)}
		if one.First.IsZero() { // the first packet came more than refusalsKept ago
			one.First = now.Add(-refusalsKept)
		}
		list = append(list, one)
	}
	return list, nil
}

func protocolName(number byte) string {
	switch number {
	case unix.IPPROTO_TCP:
		return wire.DeniedTCP
	case unix.IPPROTO_UDP:
		return wire.DeniedUDP
	}
	return wire.DeniedOther
}

func mergeRefusals(counted, past []Refusal, now time.Time) []Refusal {
	merged := map[refusalKey]Refusal{}
	for _, one := range slices.Concat(counted, past) {
		if one.Last.Before(now.Add(-refusalsKept)) {
			continue
		}
		k := one.key()
		if known, ok := merged[k]; ok {
			one.Count += known.Count
			if known.First.Before(one.First) {
				one.First = known.First
			}
			if known.Last.After(one.Last) {
				one.Last = known.Last
			}
		}
		merged[k] = one
	}
	list := slices.SortedFunc(maps.Values(merged), func(a, b Refusal) int {
		if order := b.Last.Compare(a.Last); order != 0 {
			return order
		}
		return a.Address.Compare(b.Address)
	})
	return list[:min(len(list), refusalsMax)]
}

type refusalKey struct {
	address  netip.Addr
	port     uint16
	protocol string
}

func (one Refusal) key() refusalKey { return refusalKey{one.Address, one.Port, one.Protocol} }

// The kernel reports ages, so the computed time of the first packet varies by a little.
const beginDoubt = 2 * time.Second

// withBegin returns the previously reported time if it differs only by this variation. A reader can then add up counts
// of the same entry.
func (s *slot) withBegin(list []Refusal) []Refusal {
	began := map[refusalKey]time.Time{}
	for i := range list {
		one := &list[i]
		if said, ok := s.began[one.key()]; ok && said.Sub(one.First).Abs() < beginDoubt {
			one.First = said
		}
		if one.Last.Before(one.First) { // caused by the same variation
			one.Last = one.First
		}
		began[one.key()] = one.First
	}
	s.began = began
	return list
}

func (r *Router) withNames(s *slot, list []Refusal) []Refusal {
	for i := range list {
		if known := s.outlet.grants[list[i].Address]; known != nil {
			list[i].Names = slices.Sorted(maps.Keys(known.until))
		}
	}
	return list
}

func (r *Router) saveRefusals(s *slot) {
	counted, err := r.countedRefusals(s, time.Now())
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return // refusals are informational, no decision depends on them
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.past = mergeRefusals(counted, s.past, time.Now())
}

func (r *Router) pastOf(s *slot) []Refusal {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return s.past
}
