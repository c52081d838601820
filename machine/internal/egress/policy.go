// Package egress defines and checks the egress policies that hostd, resolver and secret proxy enforce.
package egress

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	RulesMax = 256
	CIDRsMax = 64
	PortsMax = 64 // maximum per rule

	SecretPortsMax = 4096

	nameBytesMax  = 253
	labelBytesMax = 63
)

var (
	revisionPattern = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,64}$`)
	labelPattern    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	numberPattern   = regexp.MustCompile(`^([0-9]+|0x[0-9a-f]*)$`)
)

func Default() wire.HostEgress {
	return wire.HostEgress{Revision: wire.EgressDefault, Mode: wire.EgressAllowAll, Rules: []wire.HostEgressRule{}, CIDRs: []string{}}
}

// Check validates a policy from any sender, because its values become rules of the kernel.
func Check(p wire.HostEgress) error {
	if !revisionPattern.MatchString(p.Revision) {
		return fmt.Errorf("egress.revision is not 1 to 64 letters, digits, dots, dashes or underscores")
	}
	if len(p.SecretPorts) > SecretPortsMax {
		return fmt.Errorf("egress.secret_ports has more than %d", SecretPortsMax)
	}
	for i, port := range p.SecretPorts {
		if port < 1 || port > 65535 || i > 0 && port <= p.SecretPorts[i-1] {
			return fmt.Errorf("egress.secret_ports[%d] is out of range or of order", i)
		}
	}
	switch p.Mode {
	case wire.EgressAllowAll, wire.EgressDenyAll:
		if len(p.Rules)+len(p.CIDRs) > 0 {
			return fmt.Errorf("egress.rules and egress.cidrs go with the mode allowlist")
		}
		return nil
	case wire.EgressAllowlist:
	default:
		return fmt.Errorf("egress.mode is not allow_all, allowlist or deny_all")
	}
	if len(p.Rules) > RulesMax || len(p.CIDRs) > CIDRsMax {
		return fmt.Errorf("egress has more than %d rules or %d cidrs", RulesMax, CIDRsMax)
	}
	for i, rule := range p.Rules {
		if err := checkRule(rule); err != nil {
			return fmt.Errorf("egress.rules[%d].%w", i, err)
		}
	}
	for i, text := range p.CIDRs {
		if _, err := parseCIDR(text); err != nil {
			return fmt.Errorf("egress.cidrs[%d] %w", i, err)
		}
	}
	return nil
}

func checkRule(rule wire.HostEgressRule) error {
	if !isHost(strings.TrimPrefix(rule.Host, "*.")) {
		return fmt.Errorf("host is not a lower-case name of two labels or more, or one behind *.")
	}
	if len(rule.Ports) < 1 || len(rule.Ports) > PortsMax {
		return fmt.Errorf("ports are 1 to %d numbers", PortsMax)
	}
	for i, port := range rule.Ports {
		if port < 1 || port > 65535 || slices.Contains(rule.Ports[:i], port) {
			return fmt.Errorf("ports[%d] is out of range, or named twice", i)
		}
	}
	return nil
}

func isHost(name string) bool {
	labels := strings.Split(name, ".")
	last := labels[len(labels)-1]
	if len(name) > nameBytesMax || len(labels) < 2 || numberPattern.MatchString(last) || last == "localhost" {
		return false
	}
	return !slices.ContainsFunc(labels, func(label string) bool { return len(label) > labelBytesMax || !labelPattern.MatchString(label) })
}

// parseCIDR accepts public IPv6 networks, which have no effect: machines have no IPv6.
func parseCIDR(text string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(text)
	switch {
	case err != nil || network.String() != text:
		return network, fmt.Errorf("is not a network as address/bits")
	case network.Masked() != network:
		return network, fmt.Errorf("names a host and not a network")
	case network.Addr().Is6() && (network.Bits() < worldwide.Bits() || !worldwide.Contains(network.Addr()) || slices.ContainsFunc(notPublic6, network.Overlaps)):
		return network, fmt.Errorf("is not a public network")
	case network.Addr().Is4() && slices.ContainsFunc(NeverReached, network.Overlaps):
		return network, fmt.Errorf("is not a public network, or holds one that is not")
	}
	return network, nil
}

var worldwide = netip.MustParsePrefix("2000::/3")

// These parts of 2000::/3 are not public: embedded IPv4 and documentation.
var notPublic6 = prefixes("2001::/32", "2001:db8::/32", "2002::/16", "3fff::/20")

// NeverReached lists networks that no policy opens: the host's neighbours, metadata services (168.63.129.16 is Azure's)
// and other machines.
var NeverReached = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "224.0.0.0/4", "240.0.0.0/4",
)

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}
