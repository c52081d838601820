package door

import "net/netip"

// ClientGroup returns the address under which a client's limits are counted. All addresses of an IPv6 /64 are one
// client, because a computer can use 2^64 of them.
func ClientGroup(address netip.Addr) netip.Addr {
	if address.Is4() || !address.IsValid() {
		return address
	}
	prefix, err := address.Prefix(64)
	if err != nil {
		return address
	}
	return prefix.Addr()
}
