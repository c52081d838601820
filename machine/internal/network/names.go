package network

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/resolver"
)

// NameSockets are the resolver's sockets. They are in the router's namespace, so only machines can reach them.
type NameSockets struct{ UDP, TCP *os.File }

func (s NameSockets) Close() {
	s.UDP.Close()
	s.TCP.Close()
}

// ListenForNames makes new sockets at the same address. A running resolver can still use its own.
func (r *Router) ListenForNames() (sockets NameSockets, err error) {
	listen := net.ListenConfig{Control: shareAddress}
	listen.SetMultipathTCP(false)
	address := netip.AddrPortFrom(r.nameserver(), dnsPort).String()
	err = inNamespace(r.namespace, func() error {
		udp, err := listen.ListenPacket(context.Background(), "udp4", address)
		if err != nil {
			return err
		}
		defer udp.Close()
		tcp, err := listen.Listen(context.Background(), "tcp4", address)
		if err != nil {
			return err
		}
		defer tcp.Close()
		if sockets.UDP, err = udp.(*net.UDPConn).File(); err != nil {
			return err
		}
		if sockets.TCP, err = tcp.(*net.TCPListener).File(); err != nil {
			sockets.UDP.Close()
		}
		return err
	})
	if err != nil {
		return sockets, fmt.Errorf("listen for DNS on %s: %w", address, err)
	}
	return sockets, nil
}

func shareAddress(_, _ string, socket syscall.RawConn) error {
	var failed error
	err := socket.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	if err != nil {
		return err
	}
	return failed
}

func (r *Router) NamesSetup() resolver.Setup {
	setup := resolver.Setup{Resolvers: r.config.Resolvers, Blocked: blockedNetworks(r.config), WithUplink: r.config.Uplink != UplinkNone}
	setup.HostsOwn = len(setup.Resolvers) == 0 && r.config.Uplink == UplinkHost
	if len(setup.Resolvers) == 0 && r.uplinkIsNamespace() {
		slog.Warn("no resolvers are set for the uplink namespace: machines get no DNS answers", "uplink", r.config.Uplink)
	}
	return setup
}

// WherePacketsLeave runs do in the network namespace of the uplink, which may be the host's.
func (r *Router) WherePacketsLeave(do func() error) error {
	if r.uplink == nil {
		return do()
	}
	return inNamespace(r.uplink, do)
}

// AskForName checks that the resolver answers. It asks for the resolver's own reverse name: that is blocked, so no
// other server is asked.
func (r *Router) AskForName(within time.Duration) error {
	question, err := dns.ReverseAddr(r.nameserver().String())
	if err != nil {
		return err
	}
	var conn net.Conn
	err = inNamespace(r.namespace, func() (err error) {
		conn, err = net.DialTimeout("udp4", netip.AddrPortFrom(r.nameserver(), dnsPort).String(), within)
		return err
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	client := dns.Client{Timeout: within}
	answer, _, err := client.ExchangeWithConn(new(dns.Msg).SetQuestion(question, dns.TypePTR), &dns.Conn{Conn: conn})
	if err != nil {
		return err
	}
	if answer.Rcode != dns.RcodeNameError {
		return fmt.Errorf("the resolver answers %s", dns.RcodeToString[answer.Rcode])
	}
	return nil
}
