package resolver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/berth-dev/berth/machine/internal/agent/jail"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// Command is the argument with which hostd's program runs this process.
const Command = "resolve-names"

// Setup is the first line of the process's input.
type Setup struct {
	Resolvers  []string                       `json:"resolvers"`   // address or address:port
	HostsOwn   bool                           `json:"hosts_own"`   // use the resolvers of the host's /etc/resolv.conf
	Blocked    []netip.Prefix                 `json:"blocked"`     // networks that no machine may reach
	WithUplink bool                           `json:"with_uplink"` // if false, every question fails at once
	Policies   map[netip.Addr]wire.HostEgress `json:"policies"`
}

const (
	udpFD = 3 + iota
	tcpFD
	readyFD
	linkFD // connection to hostd
)

// Ready is the only message on readyFD. The process sends it when it is able to serve.
const Ready = "ready"

const (
	// MemoryBytesMax is the cgroup's limit. Go's soft limit is half of it.
	MemoryBytesMax = 256 << 20
	openFilesMax   = 1 << 16
)

// Run is the process. The parent must have dropped all privileges of it.
func Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	debug.SetMemoryLimit(MemoryBytesMax / 2)
	server, policies, err := readSetup()
	if err != nil {
		return err
	}
	link, err := net.FileConn(os.NewFile(linkFD, "link"))
	if err != nil {
		return err
	}
	server.Police(link, policies)
	udp, err := net.FilePacketConn(os.NewFile(udpFD, "udp"))
	if err != nil {
		return err
	}
	tcp, err := net.FileListener(os.NewFile(tcpFD, "tcp"))
	if err != nil {
		return err
	}
	if err := jail.OnlyNetwork(openFilesMax); err != nil {
		return err
	}
	ready := os.NewFile(readyFD, "ready")
	if _, err := ready.WriteString(Ready); err != nil {
		return err
	}
	ready.Close()
	return server.Serve(ctx, udp, tcp)
}

func readSetup() (*Server, map[netip.Addr]wire.HostEgress, error) {
	line, err := bufio.NewReader(os.Stdin).ReadBytes('\n')
	if err != nil {
		return nil, nil, fmt.Errorf("read the setup: %w", err)
	}
	var setup Setup
	if err := json.Unmarshal(line, &setup); err != nil {
		return nil, nil, fmt.Errorf("read the setup: %w", err)
	}
	resolvers, err := setup.resolvers()
	var dialer net.Dialer
	return &Server{Resolvers: resolvers, Blocked: setup.Blocked, Dial: func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
		return dialer.DialContext(ctx, network, to.String())
	}}, setup.Policies, errors.Join(err, os.Stdin.Close())
}

func (setup Setup) resolvers() (func() []netip.AddrPort, error) {
	var fixed []netip.AddrPort
	switch {
	case !setup.WithUplink:
	case setup.HostsOwn:
		host, err := openHostResolvers()
		if err != nil {
			return nil, err
		}
		return host.read, nil
	default:
		for _, text := range setup.Resolvers {
			resolver, err := ParseResolver(text)
			if err != nil {
				return nil, err
			}
			fixed = append(fixed, resolver)
		}
	}
	return func() []netip.AddrPort { return fixed }, nil
}
