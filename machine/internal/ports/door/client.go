package door

import "net/netip"

// ClientGroup is one client: an IPv6 network gives each computer 2^64 addresses.
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
