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
	// SecretsPort is the proxy's port at the nameserver's address. Only redirected connections can reach it.
	SecretsPort = 3129
	// The proxy's part of a machine's tracked connections is one half, at a time and per minute.
	proxiedShare = 2

	chainProxied  = "proxied"
	chainToProxy  = "to_proxy"
	proxiedSuffix = "_proxied"
)

// leading sends connections to secret ports to the proxy. Packets to special addresses are accepted here; a later chain
// counts and rejects them. Packets from the proxy leave like machines' own.
func (r *Router) leading(special *nftables.Set) []words {
	machines := fromAny(r.name("m"))
	return []words{
		rule(machines, daddrInSet(special), accept()),
		rule(machines, protocol(unix.IPPROTO_TCP), words{loadInto(word0, saddrOffset), outwards.port(word1),
			&expr.Lookup{SourceRegister: word0, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: r.rules.outlets.proxied.Name, SetID: r.rules.outlets.proxied.ID}}),
	}
}

// toSecrets matches only redirected packets. They also need the current mark: a connection may be half open or wait for
// the proxy when a narrower policy is set.
func (r *Router) toSecrets() words {
	return rule(fromAny(r.name("m")), daddrIs(r.nameserver()), protocol(unix.IPPROTO_TCP), dport(SecretsPort), translated())
}

// fromSecrets checks packets from the proxy, too, so that data that a server sends first is also rejected.
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

// ListenForSecrets makes a new socket at the same address. A running proxy can still use its own.
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

// Inside runs do in the router's namespace, where packets pass the host's rules like those of machines.
func (r *Router) Inside(do func() error) error { return inNamespace(r.namespace, do) }

// TrackedByProxy is the number of tracked connections that the proxy may use, half of the machines' share.
func (r *Router) TrackedByProxy() int { return r.conntrackMax() / conntrackShare / 2 }

func (r *Router) Blocked() []netip.Prefix { return blockedNetworks(r.config) }

// WithSecrets returns the machines whose connections to secret ports are redirected.
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

// withElements skips an empty list, because the kernel refuses a change without elements.
func withElements(change func(*nftables.Set, []nftables.SetElement) error, set *nftables.Set, elements []nftables.SetElement) error {
	for batch := range slices.Chunk(elements, elementsBatch) {
		if err := change(set, batch); err != nil {
			return err
		}
	}
	return nil
}
