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

// Registers of four bytes, one behind the other: a key of several words begins at the first. An address of a connection is loaded before
// what stands behind it: the kernel reserves room for IPv6 there.
const (
	word0 = unix.NFT_REG32_00
	word1 = unix.NFT_REG32_01
	word2 = unix.NFT_REG32_02
)

// What a connection began with, whichever way this packet goes.
func originator(word uint32) expr.Any { return &expr.Ct{Register: word, Key: expr.CtKeySRC} }
func target(word uint32) expr.Any     { return &expr.Ct{Register: word, Key: expr.CtKeyDST} }
func targetPort(word uint32) expr.Any { return &expr.Ct{Register: word, Key: expr.CtKeyPROTODST} }

func transport(word uint32) expr.Any { return &expr.Ct{Register: word, Key: expr.CtKeyPROTOCOL} }

func transportIs(number byte) words  { return compareTransport(expr.CmpOpEq, number) }
func transportNot(number byte) words { return compareTransport(expr.CmpOpNeq, number) }

func compareTransport(op expr.CmpOp, number byte) words {
	return words{transport(word0), &expr.Cmp{Op: op, Register: word0, Data: []byte{number}}}
}

func lookIn(set *nftables.Set) words {
	return words{&expr.Lookup{SourceRegister: word0, SetName: set.Name, SetID: set.ID}}
}

// marked matches a connection whose mark is that of its machine's policy.
func marked(fresh *nftables.Set) words {
	return rule(words{originator(word0), &expr.Ct{Register: word1, Key: expr.CtKeyMARK}}, lookIn(fresh))
}

func mark(number uint32) words {
	return words{&expr.Immediate{Register: word0, Data: binaryutil.NativeEndian.PutUint32(number)},
		&expr.Ct{Register: word0, SourceRegister: true, Key: expr.CtKeyMARK}}
}

// decide goes where the map says for the machine that began the connection, and on where it says nothing.
func decide(verdicts *nftables.Set) words {
	return words{originator(word0), &expr.Lookup{SourceRegister: word0, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: verdicts.Name, SetID: verdicts.ID}}
}

func targetIn(set *nftables.Set) words { return rule(words{target(word0)}, lookIn(set)) }

func targetAndPortIn(set *nftables.Set) words {
	return rule(words{target(word0), targetPort(word1)}, lookIn(set))
}

// fasterThan matches packets of connections that a machine began, beyond so many a second.
func fasterThan(set *nftables.Set, packets uint64, burst uint32) words {
	return words{originator(word0), dynamic(set, unix.NFT_DYNSET_OP_UPDATE, 0,
		&expr.Limit{Type: expr.LimitTypePkts, Rate: packets, Unit: expr.LimitTimeSecond, Burst: burst, Over: true})}
}

func dynamic(set *nftables.Set, operation uint32, timeout time.Duration, exprs ...expr.Any) expr.Any {
	return &expr.Dynset{SrcRegKey: word0, SetName: set.Name, SetID: set.ID, Operation: operation, Timeout: timeout, Exprs: exprs}
}

func goTo(chain string) words { return words{&expr.Verdict{Kind: expr.VerdictGoto, Chain: chain}} }

// prohibited answers what is no TCP packet, so that a program learns at once what will never work.
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
