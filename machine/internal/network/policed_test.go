package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	second = "203.0.113.11"
	third  = "203.0.113.12"
	usable = time.Minute
)

func allowlist(revision string, cidrs []string, hosts ...string) wire.HostEgress {
	p := wire.HostEgress{Revision: revision, Mode: wire.EgressAllowlist, Rules: []wire.HostEgressRule{}, CIDRs: append([]string{}, cidrs...)}
	for _, host := range hosts {
		p.Rules = append(p.Rules, wire.HostEgressRule{Host: host, Ports: []int{443}})
	}
	return p
}

func mode(revision, mode string) wire.HostEgress {
	return wire.HostEgress{Revision: revision, Mode: mode, Rules: []wire.HostEgressRule{}, CIDRs: []string{}}
}

type policed struct {
	t      *testing.T
	c      Config
	r      *Router
	uplink *os.File
	a      machine
}

func openPoliced(t *testing.T, p wire.HostEgress, more ...string) policed {
	t.Helper()
	return openPolicedWith(t, func(*Config) {}, p, more...)
}

func openPolicedWith(t *testing.T, change func(*Config), p wire.HostEgress, more ...string) policed {
	t.Helper()
	uplink := testNamespace(t, append(more, public, second, third)...)
	for _, port := range []int{80, 443} {
		serve(t, uplink, port)
	}
	c := testConfig(t, uplink.Name())
	change(&c)
	r := openTest(t, c)
	w := policed{t: t, c: c, r: r, uplink: uplink, a: attach(t, r, "a")}
	must(t, errors.Join(r.SetEgress("a", p), r.Connect("a")))
	return w
}

func (w policed) set(p wire.HostEgress) {
	w.t.Helper()
	must(w.t, w.r.SetEgress("a", p))
	if got := w.r.Egress("a"); got != (wire.EgressInForce{Revision: p.Revision, State: wire.EgressEnforced}) {
		w.t.Errorf("in force: %+v", got)
	}
}

func (w policed) grant(name string, addresses ...string) error {
	list := []netip.Addr{}
	for _, text := range addresses {
		list = append(list, netip.MustParseAddr(text))
	}
	return w.r.Grant(w.a.Address, name, list, usable)
}

func (w policed) reaches(address string, port int) {
	w.t.Helper()
	call(w.t, w.a.ns, address, port)
}

func (w policed) refusedAtOnce(what, address string, port int) {
	w.t.Helper()
	conn, err := dial(w.a.ns, address, port, arrives)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		w.t.Errorf("%s: %s:%d: %v", what, address, port, err)
	}
}

func (w policed) open(address string, port int) net.Conn {
	w.t.Helper()
	conn, err := dial(w.a.ns, address, port, arrives)
	must(w.t, err)
	w.t.Cleanup(func() { conn.Close() })
	line(w.t, conn)
	return conn
}

func (w policed) carries(what string, conn net.Conn, want bool) {
	w.t.Helper()
	within := arrives
	if !want {
		within = time.Second
	}
	if got := echoes(conn, within); got != want {
		w.t.Errorf("%s: the connection carries bytes: %v", what, got)
	}
}

func datagram(m machine, address string, port int) error {
	return inNamespace(m.ns, func() error {
		conn, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.ParseIP(address), Port: port})
		if err != nil {
			return err
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(arrives))
		if _, err := conn.Write([]byte("x")); err != nil {
			return err
		}
		_, err = conn.Read(make([]byte, 1))
		return err
	})
}

func raw(t *testing.T, m machine, number int, address string) {
	t.Helper()
	must(t, inNamespace(m.ns, func() error {
		socket, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, number)
		if err != nil {
			return err
		}
		defer unix.Close(socket)
		return unix.Sendto(socket, []byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0}, 0, &unix.SockaddrInet4{Addr: netip.MustParseAddr(address).As4()})
	}))
}

func conntrackTo(t *testing.T, r *Router) (left []string) {
	t.Helper()
	flows, err := r.reachedAddresses()
	must(t, err)
	for machine, addresses := range flows {
		for address := range addresses {
			if machineNetwork.Contains(machine) && !machineNetwork.Contains(address) {
				left = append(left, machine.String()+" "+address.String())
			}
		}
	}
	return left
}

func (w policed) refusals() []Refusal {
	w.t.Helper()
	list, err := w.r.Refusals("a")
	must(w.t, err)
	return list
}

func (w policed) ruleset() string {
	w.t.Helper()
	var text []byte
	must(w.t, inNamespace(w.r.namespace, func() (err error) {
		if text, err = exec.Command("nft", "list", "ruleset").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return err
	}))
	return string(text)
}

func roundTrips(t *testing.T, m machine) time.Duration {
	t.Helper()
	conn, err := dial(m.ns, public, 443, arrives)
	must(t, err)
	defer conn.Close()
	line(t, conn)
	var times []time.Duration
	for range 2000 {
		began := time.Now()
		if !echoes(conn, arrives) {
			t.Fatal("no echo")
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return times[len(times)/2]
}

func (w policed) nft(commands string) {
	w.t.Helper()
	must(w.t, inNamespace(w.r.namespace, func() error {
		if text, err := exec.Command("nft", commands).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
		return nil
	}))
}
