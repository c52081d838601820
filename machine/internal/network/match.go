package network

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

type words = []expr.Any

const (
	register1 = unix.NFT_REG_1
	register2 = unix.NFT_REG_2 // directly after the 16 bytes of the first, so that both form one key

	saddrOffset, daddrOffset = 12, 16
	established              = expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED
)

func rule(parts ...words) words { return slices.Concat(parts...) }

func padded(name string) []byte {
	bytes := make([]byte, unix.IFNAMSIZ)
	copy(bytes, name)
	return bytes
}

func from(link string) words { return linkIs(expr.MetaKeyIIFNAME, padded(link)) }
func to(link string) words   { return linkIs(expr.MetaKeyOIFNAME, padded(link)) }

func fromAny(prefix string) words { return linkIs(expr.MetaKeyIIFNAME, []byte(prefix)) }
func toAny(prefix string) words   { return linkIs(expr.MetaKeyOIFNAME, []byte(prefix)) }

func linkIs(key expr.MetaKey, name []byte) words {
	return words{&expr.Meta{Key: key, Register: register1}, &expr.Cmp{Op: expr.CmpOpEq, Register: register1, Data: name}}
}

func notTo(link string) words {
	return words{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: register1}, &expr.Cmp{Op: expr.CmpOpNeq, Register: register1, Data: padded(link)}}
}

func load(offset uint32) expr.Any { return loadInto(register1, offset) }

func loadInto(register, offset uint32) expr.Any {
	return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4}
}

func saddrIs(address netip.Addr) words { return addressIs(saddrOffset, address) }
func daddrIs(address netip.Addr) words { return addressIs(daddrOffset, address) }

func addressIs(offset uint32, address netip.Addr) words {
	return words{load(offset), &expr.Cmp{Op: expr.CmpOpEq, Register: register1, Data: address.AsSlice()}}
}

func saddrIn(network netip.Prefix) words {
	mask := ipNet(network).Mask
	return words{load(saddrOffset), &expr.Bitwise{SourceRegister: register1, DestRegister: register1, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register1, Data: network.Addr().AsSlice()}}
}

func daddrInSet(set *nftables.Set) words {
	return words{load(daddrOffset), &expr.Lookup{SourceRegister: register1, SetName: set.Name, SetID: set.ID}}
}

func senderIn(set *nftables.Set) words    { return pairIn(set, expr.MetaKeyIIFNAME, saddrOffset, false) }
func senderNotIn(set *nftables.Set) words { return pairIn(set, expr.MetaKeyIIFNAME, saddrOffset, true) }
func receiverIn(set *nftables.Set) words  { return pairIn(set, expr.MetaKeyOIFNAME, daddrOffset, false) }

func pairIn(set *nftables.Set, link expr.MetaKey, offset uint32, invert bool) words {
	return words{&expr.Meta{Key: link, Register: register1}, loadInto(register2, offset),
		&expr.Lookup{SourceRegister: register1, SetName: set.Name, SetID: set.ID, Invert: invert}}
}

func protocol(number byte) words {
	return words{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register1}, &expr.Cmp{Op: expr.CmpOpEq, Register: register1, Data: []byte{number}}}
}

func dport(port uint16) words { return portAt(2, port) }
func sport(port uint16) words { return portAt(0, port) }

func portAt(offset uint32, port uint16) words {
	return words{&expr.Payload{DestRegister: register1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register1, Data: binary.BigEndian.AppendUint16(nil, port)}}
}

func notOpening() words {
	const flagsOffset, synchronize, acknowledge = 13, 0x02, 0x10
	return words{&expr.Payload{DestRegister: register1, Base: expr.PayloadBaseTransportHeader, Offset: flagsOffset, Len: 1},
		&expr.Bitwise{SourceRegister: register1, DestRegister: register1, Len: 1, Mask: []byte{synchronize | acknowledge}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register1, Data: []byte{synchronize}}}
}

// resetting matches TCP resets, which the rules themselves also send.
func resetting() words {
	const flagsOffset, reset = 13, 0x04
	return words{&expr.Payload{DestRegister: register1, Base: expr.PayloadBaseTransportHeader, Offset: flagsOffset, Len: 1},
		&expr.Bitwise{SourceRegister: register1, DestRegister: register1, Len: 1, Mask: []byte{reset}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register1, Data: []byte{0}}}
}

func isIPv4() words { return family(unix.NFPROTO_IPV4) }
func isIPv6() words { return family(unix.NFPROTO_IPV6) }

func family(number byte) words {
	return words{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: register1}, &expr.Cmp{Op: expr.CmpOpEq, Register: register1, Data: []byte{number}}}
}

func state(bits uint32) words {
	return words{&expr.Ct{Key: expr.CtKeySTATE, Register: register1},
		&expr.Bitwise{SourceRegister: register1, DestRegister: register1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(bits), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register1, Data: make([]byte, 4)}}
}

// translated matches packets whose destination was rewritten.
func translated() words {
	const destination = 0x20
	return words{&expr.Ct{Key: expr.CtKeySTATUS, Register: register1},
		&expr.Bitwise{SourceRegister: register1, DestRegister: register1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(destination), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register1, Data: make([]byte, 4)}}
}

func over(set *nftables.Set, connections uint32) words {
	return words{load(saddrOffset), &expr.Dynset{SrcRegKey: register1, SetName: set.Name, SetID: set.ID, Operation: uint32(unix.NFT_DYNSET_OP_ADD),
		Exprs: []expr.Any{&expr.Connlimit{Count: connections, Flags: expr.NFT_CONNLIMIT_F_INV}}}}
}

func faster(set *nftables.Set, packets uint64, burst uint32) words {
	return fasterThan(set, packets, expr.LimitTimeSecond, burst)
}

func fasterThan(set *nftables.Set, packets uint64, in expr.LimitTime, burst uint32) words {
	return words{load(saddrOffset), &expr.Dynset{SrcRegKey: register1, SetName: set.Name, SetID: set.ID, Operation: uint32(unix.NFT_DYNSET_OP_UPDATE),
		Exprs: []expr.Any{&expr.Limit{Type: expr.LimitTypePkts, Rate: packets, Unit: in, Burst: burst, Over: true}}}}
}

func accept() words     { return words{&expr.Verdict{Kind: expr.VerdictAccept}} }
func drop() words       { return words{&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop}} }
func masquerade() words { return words{&expr.Masq{}} }
func notrack() words    { return words{&expr.Notrack{}} }

// reset rejects a packet, so that programs fail at once instead of timing out.
func reset() words {
	return words{&expr.Counter{}, &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}
}

func unreachable() words {
	const portUnreachable = 3
	return words{&expr.Counter{}, &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: portUnreachable}}
}

func userIs(uid uint32) words {
	return words{&expr.Meta{Key: expr.MetaKeySKUID, Register: register1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register1, Data: binaryutil.NativeEndian.PutUint32(uid)}}
}

func jump(chain *nftables.Chain) words {
	return words{&expr.Verdict{Kind: expr.VerdictJump, Chain: chain.Name}}
}
