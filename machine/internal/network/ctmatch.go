package network

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

const (
	word0 = unix.NFT_REG32_00
	word1 = unix.NFT_REG32_01
	word2 = unix.NFT_REG32_02
)

// Offsets of the machine's address, the peer's address and the peer's port.
type heading struct{ machine, other, otherPort uint32 }

var (
	outwards = heading{machine: saddrOffset, other: daddrOffset, otherPort: 2}
	inwards  = heading{machine: daddrOffset, other: saddrOffset, otherPort: 0}
)

func (h heading) port(word uint32) expr.Any {
	return &expr.Payload{DestRegister: word, Base: expr.PayloadBaseTransportHeader, Offset: h.otherPort, Len: 2}
}

func (h heading) marked(fresh *nftables.Set) words {
	return rule(words{loadInto(word0, h.machine), &expr.Ct{Register: word1, Key: expr.CtKeyMARK}}, lookIn(fresh))
}

// decide looks up the machine's verdict in the set. Without an entry, the next rule applies.
func (h heading) decide(verdicts *nftables.Set) words {
	return words{loadInto(word0, h.machine),
		&expr.Lookup{SourceRegister: word0, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: verdicts.Name, SetID: verdicts.ID}}
}

func (h heading) otherIn(set *nftables.Set) words {
	return rule(words{loadInto(word0, h.other)}, lookIn(set))
}

func (h heading) otherAndPortIn(set *nftables.Set) words {
	return rule(words{loadInto(word0, h.other), h.port(word1)}, lookIn(set))
}

func lookIn(set *nftables.Set) words {
	return words{&expr.Lookup{SourceRegister: word0, SetName: set.Name, SetID: set.ID}}
}

func protocolNot(number byte) words {
	return words{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: word0}, &expr.Cmp{Op: expr.CmpOpNeq, Register: word0, Data: []byte{number}}}
}

func mark(number uint32) words {
	return words{&expr.Immediate{Register: word0, Data: binaryutil.NativeEndian.PutUint32(number)},
		&expr.Ct{Register: word0, SourceRegister: true, Key: expr.CtKeyMARK}}
}

func dynamic(set *nftables.Set, operation uint32, timeout time.Duration, exprs ...expr.Any) expr.Any {
	return &expr.Dynset{SrcRegKey: word0, SetName: set.Name, SetID: set.ID, Operation: operation, Timeout: timeout, Exprs: exprs}
}

func goTo(chain string) words { return words{&expr.Verdict{Kind: expr.VerdictGoto, Chain: chain}} }

func prohibited() words {
	const administratively = 13
	return words{&expr.Counter{}, &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: administratively}}
}

func addressKey(address netip.Addr) []byte { return address.AsSlice() }

func markedKey(address netip.Addr, mark uint32) []byte {
	return append(address.AsSlice(), binaryutil.NativeEndian.PutUint32(mark)...)
}

func portKey(address netip.Addr, port uint16) []byte {
	return append(binary.BigEndian.AppendUint16(address.AsSlice(), port), 0, 0)
}

func splitPortKey(key []byte) (netip.Addr, uint16, bool) {
	if len(key) != 8 {
		return netip.Addr{}, 0, false
	}
	address, _ := netip.AddrFromSlice(key[:4])
	return address, binary.BigEndian.Uint16(key[4:]), true
}
