package egress

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// Matcher looks up the rules of one policy. It is immutable, so any goroutine may use it.
type Matcher struct {
	Policy wire.HostEgress

	exact, below map[string][]uint16 // below: wildcard rules, by the part after the wildcard's label
	networks     []netip.Prefix
}

// NewMatcher requires a policy that passed Check, because it ignores parse errors.
func NewMatcher(p wire.HostEgress) *Matcher {
	m := &Matcher{Policy: p, exact: map[string][]uint16{}, below: map[string][]uint16{}}
	if p.Mode != wire.EgressAllowlist {
		return m
	}
	for _, rule := range p.Rules {
		ports := make([]uint16, 0, len(rule.Ports))
		for _, port := range rule.Ports {
			ports = append(ports, uint16(port))
		}
		if parent, ok := strings.CutPrefix(rule.Host, "*."); ok {
			m.below[parent] = append(m.below[parent], ports...)
		} else {
			m.exact[rule.Host] = append(m.exact[rule.Host], ports...)
		}
	}
	for _, text := range p.CIDRs {
		if network, err := parseCIDR(text); err == nil && network.Addr().Is4() {
			m.networks = append(m.networks, network)
		}
	}
	return m
}

func (m *Matcher) IsOpen() bool { return m.Policy.Mode == wire.EgressAllowAll }

// Ports returns the open ports of a name; none if the name is not allowed.
func (m *Matcher) Ports(name string) []uint16 {
	name, ok := Canonical(name)
	if !ok {
		return nil
	}
	_, parent, _ := strings.Cut(name, ".")
	ports := slices.Concat(m.exact[name], m.below[parent])
	slices.Sort(ports)
	return slices.Compact(ports)
}

// Networks returns the allowed networks; all their TCP ports are open.
func (m *Matcher) Networks() []netip.Prefix { return m.networks }

// PortsMax returns the largest number of open ports of any name.
func (m *Matcher) PortsMax() (most int) {
	count := func(of map[string][]uint16) (most int) {
		for _, ports := range of {
			most = max(most, len(ports))
		}
		return most
	}
	return count(m.exact) + count(m.below)
}

// Canonical spells a name as rules do. It refuses labels that no rule matches, such as one with an escaped dot.
func Canonical(name string) (string, bool) {
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if name == "" || len(name) > nameBytesMax {
		return "", false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > labelBytesMax || strings.IndexFunc(label, isForeign) >= 0 {
			return "", false
		}
	}
	return name, true
}

func isForeign(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
}
