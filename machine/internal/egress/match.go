package egress

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// Matcher is a policy that is asked. It does not change.
type Matcher struct {
	Policy wire.EgressPolicy

	exact, below map[string][]uint16 // below: by what follows the one label of a wildcard
	networks     []netip.Prefix
}

// NewMatcher takes a policy that was checked.
func NewMatcher(p wire.EgressPolicy) *Matcher {
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

// IsOpen says that the policy refuses nothing.
func (m *Matcher) IsOpen() bool { return m.Policy.Mode == wire.EgressAllowAll }

// Ports are what may be connected to at the addresses of a name, in order. None: the name is not allowed.
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

// Networks are IPv4 networks of which every port of TCP may be connected to.
func (m *Matcher) Networks() []netip.Prefix { return m.networks }

// PortsMax is how many ports the addresses of one name may have open.
func (m *Matcher) PortsMax() (most int) {
	count := func(of map[string][]uint16) (most int) {
		for _, ports := range of {
			most = max(most, len(ports))
		}
		return most
	}
	return count(m.exact) + count(m.below)
}

// Canonical is a name of DNS as rules are written: lower-case, without the last dot. A label may be any string of bytes, a dot among them,
// which is written with a backslash; no rule means such a name.
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
