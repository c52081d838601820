package network

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables"

	"github.com/berth-dev/berth/machine/internal/egress"
)

// documentation is never routed on the internet, so tests use it as a public network.
const documentation = "203.0.113.0/24"

type span struct{ first, last uint32 }

func blockedNetworks(c Config) []netip.Prefix {
	networks := append([]netip.Prefix{c.MachineNetwork}, egress.NeverReached...)
	if c.Uplink == UplinkHost && !c.documentation {
		networks = append(networks, netip.MustParsePrefix(documentation))
	}
	return networks
}

// specialRanges joins overlapping networks: an interval set requires sorted, disjoint spans that are not adjacent.
func specialRanges(c Config, more ...netip.Prefix) []span {
	return spansOf(append(blockedNetworks(c), more...))
}

func spansOf(networks []netip.Prefix) []span {
	spans := []span{}
	for _, network := range networks {
		first := binary.BigEndian.Uint32(network.Masked().Addr().AsSlice())
		spans = append(spans, span{first, first | (1<<(32-network.Bits()) - 1)})
	}
	return merge(spans)
}

func merge(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int {
		if a.first < b.first {
			return -1
		}
		return 1
	})
	merged := spans[:1]
	for _, next := range spans[1:] {
		last := &merged[len(merged)-1]
		if uint64(next.first) <= uint64(last.last)+1 {
			last.last = max(last.last, next.last)
		} else {
			merged = append(merged, next)
		}
	}
	return merged
}

func intervals(spans []span) []nftables.SetElement {
	elements := []nftables.SetElement{}
	for _, s := range spans {
		elements = append(elements, nftables.SetElement{Key: binary.BigEndian.AppendUint32(nil, s.first)})
		if s.last < 1<<32-1 {
			elements = append(elements, nftables.SetElement{Key: binary.BigEndian.AppendUint32(nil, s.last+1), IntervalEnd: true})
		}
	}
	return elements
}
