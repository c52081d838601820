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
	// SecretsPort of the nameserver's address is where connections arrive that the proxy of secrets has to see. Nothing else gets there.
	SecretsPort = 3129
	// proxiedShare is what part of its tracked connections one machine may have to the proxy at a time, and begin in a minute.
	proxiedShare = 2

	chainProxied  = "proxied"
	chainToProxy  = "to_proxy"
	proxiedSuffix = "_proxied"
)

// leading leads what machines begin to ports of their secrets to the proxy, as far as their policy lets it out: what it refuses goes on, to where
// it is counted and answered. Whatever the proxy sends leaves as machines' packets do.
func (r *Router) leading(special *nftables.Set) []words {
	machines := fromAny(r.name("m"))
	return []words{
		rule(machines, daddrInSet(special), accept()),
		rule(machines, protocol(unix.IPPROTO_TCP), words{loadInto(word0, saddrOffset), outwards.port(word1),
			&expr.Lookup{SourceRegister: word0, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: r.rules.outlets.proxied.Name, SetID: r.rules.outlets.proxied.ID}}),
	}
}

// toSecrets matches what was led to the proxy, and no packet that a machine sends to it. Such a packet passes only with the mark of the policy in
// force, as one to the uplink does: a connection may be half open, or wait for the proxy, when a narrower policy comes.
func (r *Router) toSecrets() words {
	return rule(fromAny(r.name("m")), daddrIs(r.nameserver()), protocol(unix.IPPROTO_TCP), dport(SecretsPort), translated())
}

// fromSecrets ends such a connection from the proxy's side: what a server says first does not reach the machine either.
func (r *Router) fromSecrets() []words {
	said := rule(toAny(r.name("m")), saddrIs(r.nameserver()), protocol(unix.IPPROTO_TCP), sport(SecretsPort), translated())
	return []words{rule(said, inwards.marked(r.rules.outlets.fresh), accept()), rule(said, resetting(), accept()), rule(said, reset())}
}

func toAddress(address netip.Addr, port uint16) words {
	return words{&expr.Immediate{Register: register1, Data: address.AsSlice()},
		&expr.Immediate{Register: register2, Data: binary.BigEndian.AppendUint16(nil, port)},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: register1, RegProtoMin: register2}}
}

// proxiedElements lead a machine's ports of secrets to where its policy is looked at. Under deny_all nothing is led anywhere.
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

// ListenForSecrets makes the socket of the proxy. One that runs keeps its own until it ends.
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

// Inside runs do in the router's network: what a process sends from there passes the host as machines' packets do.
func (r *Router) Inside(do func() error) error { return inNamespace(r.namespace, do) }

// TrackedByProxy is how many connections of the proxy the computer has room to track: half as many as those of all machines.
func (r *Router) TrackedByProxy() int { return r.conntrackMax() / conntrackShare / 2 }

// Blocked is what no machine reaches.
func (r *Router) Blocked() []netip.Prefix { return blockedNetworks(r.config) }

// WithSecrets are the machines whose connections are led to the proxy.
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

// withElements changes a set by elements, a few at a time. The kernel refuses a change by none.
func withElements(change func(*nftables.Set, []nftables.SetElement) error, set *nftables.Set, elements []nftables.SetElement) error {
	for batch := range slices.Chunk(elements, elementsBatch) {
		if err := change(set, batch); err != nil {
			return err
		}
	}
	return nil
}
