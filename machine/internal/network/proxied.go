package network

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	// SecretsPort is at the nameserver's address. Only redirected connections get there.
	SecretsPort = 3129
	// The proxy's part of a machine's tracked connections, at a time and per minute.
	proxiedShare = 2

	chainProxied  = "proxied"
	chainToProxy  = "to_proxy"
	proxiedSuffix = "_proxied"
)

// Refused packets are counted and rejected later. Packets from the proxy leave like machines' own.
func (r *Router) leading(special *nftables.Set) []words {
	machines := fromAny(r.name("m"))
	return []words{
		rule(machines, daddrInSet(special), accept()),
		rule(machines, protocol(unix.IPPROTO_TCP), words{loadInto(word0, saddrOffset), outwards.port(word1),
			&expr.Lookup{SourceRegister: word0, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: r.rules.outlets.proxied.Name, SetID: r.rules.outlets.proxied.ID}}),
	}
}

// Only redirected packets match. They need the current mark: a connection may be half open, or wait for the proxy, when
// a narrower policy comes.
func (r *Router) toSecrets() words {
	return rule(fromAny(r.name("m")), daddrIs(r.nameserver()), protocol(unix.IPPROTO_TCP), dport(SecretsPort), translated())
}

// Data that a server sends first stays out, too.
func (r *Router) fromSecrets() []words {
	said := rule(toAny(r.name("m")), saddrIs(r.nameserver()), protocol(unix.IPPROTO_TCP), sport(SecretsPort), translated())
	return []words{rule(said, inwards.marked(r.rules.outlets.fresh), accept()), rule(said, resetting(), accept()), rule(said, reset())}
}

func toAddress(address netip.Addr, port uint16) words {
	return words{&expr.Immediate{Register: register1, Data: address.AsSlice()},
		&expr.Immediate{Register: register2, Data: binary.BigEndian.AppendUint16(nil, port)},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: register1, RegProtoMin: register2}}
}

func (r *Router) proxiedElements(s *slot, o outlet) (list []nftables.SetElement) {
	chain := chainProxied
	switch {
	case o.isAllowlist():
		chain = policyOf(s, o) + proxiedSuffix
	case !o.matcher.IsOpen():
		return nil
	}
	for _, port := range o.matcher.Policy.SecretPorts {
		list = append(list, nftables.SetElement{Key: portKey(r.address(s.index, 2), uint16(port)), VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: chain}})
	}
	return list
}

func proxyWhatIsAllowed(o outlet, names, networks *nftables.Set) []words {
	lead := rule(mark(o.mark), goTo(chainProxied))
	list := []words{rule(outwards.otherAndPortIn(names), lead)}
	if networks != nil {
		list = append(list, rule(outwards.otherIn(networks), lead))
	}
	return list
}

// ListenForSecrets leaves a running proxy its own socket.
func (r *Router) ListenForSecrets() (socket *os.File, err error) {
	listen := net.ListenConfig{Control: shareAddress}
	listen.SetMultipathTCP(false)
	address := netip.AddrPortFrom(r.nameserver(), SecretsPort).String()
	err = inNamespace(r.namespace, func() error {
		tcp, err := listen.Listen(context.Background(), "tcp4", address)
		if err != nil {
			return err
		}
		defer tcp.Close()
		socket, err = tcp.(*net.TCPListener).File()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen for requests with secrets on %s: %w", address, err)
	}
	return socket, nil
}

// Inside runs do where packets pass the host like those of machines.
func (r *Router) Inside(do func() error) error { return inNamespace(r.namespace, do) }

// TrackedByProxy is half of the machines' share.
func (r *Router) TrackedByProxy() int { return r.conntrackMax() / conntrackShare / 2 }

func (r *Router) Blocked() []netip.Prefix { return blockedNetworks(r.config) }

// WithSecrets returns machines with redirected connections.
func (r *Router) WithSecrets() map[netip.Addr]wire.SecretsOf {
	r.mu.RLock()
	defer r.mu.RUnlock()
	found := map[netip.Addr]wire.SecretsOf{}
	for _, s := range r.slots {
		if of := s.outlet.matcher.Policy.SecretsOf; of != nil {
			found[r.address(s.index, 2)] = *of
		}
	}
	return found
}

// The kernel refuses a change without elements.
func withElements(change func(*nftables.Set, []nftables.SetElement) error, set *nftables.Set, elements []nftables.SetElement) error {
	for batch := range slices.Chunk(elements, elementsBatch) {
		if err := change(set, batch); err != nil {
			return err
		}
	}
	return nil
}
