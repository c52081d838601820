package door

import "net/netip"

// ClientGroup is what one client has of addresses. A network of IPv6 gives each computer 2^64 of them.
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
