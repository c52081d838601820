package resolver

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// Globally routed IPv6 addresses are in this network; private and local ones are not.
var worldwide = netip.MustParsePrefix("2000::/3")

func (s *Server) isBlocked(address netip.Addr) bool {
	if address = address.Unmap(); address.Is6() {
		return !worldwide.Contains(address)
	}
	return slices.ContainsFunc(s.Blocked, func(network netip.Prefix) bool { return network.Contains(address) })
}

// withoutBlocked removes blocked addresses from an answer. They would reveal the host's surroundings, and let a page in
// the guest's browser pass as a private server.
func (s *Server) withoutBlocked(answer *dns.Msg) *dns.Msg {
	for _, section := range []*[]dns.RR{&answer.Answer, &answer.Ns, &answer.Extra} {
		*section = slices.DeleteFunc(*section, func(record dns.RR) bool { return slices.ContainsFunc(addressesIn(record), s.isBlocked) })
	}
	return answer
}

func addressesIn(record dns.RR) []netip.Addr {
	var found []netip.Addr
	add := func(bytes []byte) {
		if address, ok := netip.AddrFromSlice(bytes); ok {
			found = append(found, address)
		}
	}
	hints := func(pairs []dns.SVCBKeyValue) {
		for _, pair := range pairs {
			switch hint := pair.(type) {
			case *dns.SVCBIPv4Hint:
				for _, ip := range hint.Hint {
					add(ip)
				}
			case *dns.SVCBIPv6Hint:
				for _, ip := range hint.Hint {
					add(ip)
				}
			}
		}
	}
	switch r := record.(type) {
	case *dns.A:
		add(r.A)
	case *dns.AAAA:
		add(r.AAAA)
	case *dns.SVCB:
		hints(r.Value)
	case *dns.HTTPS:
		hints(r.Value)
	}
	return found
}

const (
	reverse4 = ".in-addr.arpa."
	reverse6 = ".ip6.arpa."
)

func (s *Server) asksForBlocked(name string) bool {
	name = "." + strings.ToLower(name)
	if rest, ok := strings.CutSuffix(name, reverse6); ok {
		return !strings.HasSuffix(rest, ".2") && !strings.HasSuffix(rest, ".3")
	}
	rest, ok := strings.CutSuffix(name, reverse4)
	if !ok {
		return false
	}
	var address [4]byte
	labels := strings.Split(strings.TrimPrefix(rest, "."), ".")
	slices.Reverse(labels)
	labels = labels[:min(len(labels), len(address))]
	for i, label := range labels {
		number, err := strconv.ParseUint(label, 10, 8)
		if err != nil {
			return false
		}
		address[i] = byte(number)
	}
	asked := netip.PrefixFrom(netip.AddrFrom4(address), 8*len(labels))
	return slices.ContainsFunc(s.Blocked, func(network netip.Prefix) bool {
		return network.Bits() <= asked.Bits() && network.Contains(asked.Addr())
	})
}
