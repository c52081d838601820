package egress

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// Matcher is immutable.
type Matcher struct {
	Policy wire.HostEgress

	exact, below map[string][]uint16 // below: by the part after the wildcard's label
	networks     []netip.Prefix
}

// NewMatcher needs a policy that passed Check.
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

// Ports is empty if the name is not allowed.
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

// Networks have all TCP ports open.
func (m *Matcher) Networks() []netip.Prefix { return m.networks }

// PortsMax bounds one name's open ports.
func (m *Matcher) PortsMax() (most int) {
	count := func(of map[string][]uint16) (most int) {
		for _, ports := range of {
			most = max(most, len(ports))
		}
		return most
	}
	return count(m.exact) + count(m.below)
}

// Canonical spells a name as rules do. A label may contain any bytes, such as an escaped dot; no rule matches such a
// name.
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
