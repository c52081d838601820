package network

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	public     = "203.0.113.10"
	nameserver = "203.0.113.53"
	blocked    = 200 * time.Millisecond // wait for a packet that must not arrive
	arrives    = 60 * time.Second       // limit for one that must, on a busy computer
)

var machineNetwork = netip.MustParsePrefix("10.117.0.0/16")

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testNamespace(t *testing.T, addresses ...string) *os.File {
	t.Helper()
	pin := filepath.Join(t.TempDir(), "ns")
	namespace, err := createNamespace(pin)
	must(t, err)
	t.Cleanup(func() { namespace.Close(); must(t, removeNamespace(pin)) })
	addAddresses(t, namespace, "lo", addresses...)
	return namespace
}

func addAddresses(t *testing.T, namespace *os.File, name string, addresses ...string) {
	t.Helper()
	handle, err := handleIn(namespace, unix.NETLINK_ROUTE)
	must(t, err)
	defer handle.Close()
	link, err := handle.LinkByName(name)
	must(t, err)
	must(t, handle.LinkSetUp(link))
	for _, text := range addresses {
		address, err := netlink.ParseAddr(text + "/32")
		must(t, err)
		must(t, handle.AddrReplace(link, address))
	}
}

func hostNamespace(t *testing.T) *os.File {
	t.Helper()
	file, err := os.Open("/proc/self/ns/net")
	must(t, err)
	t.Cleanup(func() { file.Close() })
	return file
}

func testConfig(t *testing.T, uplink string) Config {
	return Config{Instance: "7e57", MachineNetwork: machineNetwork, Uplink: uplink, RunDir: t.TempDir(), documentation: true}
}

func openTest(t *testing.T, c Config) *Router {
	t.Helper()
	r, err := Open(context.Background(), c)
	must(t, err)
	t.Cleanup(func() {
		if r.namespace.Fd() != ^uintptr(0) { // not closed by the test
			must(t, r.Close())
		}
	})
	return r
}

type machine struct {
	*Attachment
	ns *os.File
}

func attach(t *testing.T, r *Router, slot string) machine {
	t.Helper()
	a, err := r.Attach(slot)
	must(t, err)
	ns, err := os.Open(a.NetnsPath)
	must(t, err)
	t.Cleanup(func() { ns.Close() })
	return machine{a, ns}
}

func serve(t *testing.T, namespace *os.File, port int) {
	t.Helper()
	var listener net.Listener
	must(t, inNamespace(namespace, func() (err error) {
		listener, err = net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", port))
		return err
	}))
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				fmt.Fprintf(conn, "%s\n", netip.MustParseAddrPort(conn.RemoteAddr().String()).Addr())
				io.Copy(conn, conn)
			}()
		}
	}()
}

func dial(namespace *os.File, address string, port int, timeout time.Duration) (conn net.Conn, err error) {
	err = inNamespace(namespace, func() (err error) {
		conn, err = net.DialTimeout("tcp4", fmt.Sprintf("%s:%d", address, port), timeout)
		return err
	})
	return conn, err
}

func call(t *testing.T, namespace *os.File, address string, port int) string {
	t.Helper()
	conn, err := dial(namespace, address, port, arrives)
	must(t, err)
	defer conn.Close()
	return line(t, conn)
}

func line(t *testing.T, conn net.Conn) string {
	t.Helper()
	text := make([]byte, 64)
	must(t, conn.SetReadDeadline(time.Now().Add(arrives)))
	n, err := conn.Read(text)
	must(t, err)
	return string(text[:max(n-1, 0)])
}

func refuse(t *testing.T, what string, namespace *os.File, address string, port int) {
	t.Helper()
	if conn, err := dial(namespace, address, port, blocked); err == nil {
		conn.Close()
		t.Errorf("%s: %s:%d was reached", what, address, port)
	}
}

type attempt struct {
	what    string
	from    *os.File
	address string
	port    int
}

func refuseAll(t *testing.T, attempts []attempt) {
	t.Helper()
	var waiting sync.WaitGroup
	for _, a := range attempts {
		waiting.Go(func() { refuse(t, a.what, a.from, a.address, a.port) })
	}
	waiting.Wait()
}

func echoes(conn net.Conn, within time.Duration) bool {
	conn.SetDeadline(time.Now().Add(within))
	if _, err := conn.Write([]byte("x")); err != nil {
		return false
	}
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err == nil
}

// The first packet may be late: after a spoofed packet, an unanswered ARP request is repeated after a second.
func receive(t *testing.T, namespace *os.File, port int) func(first time.Duration) map[netip.AddrPort]int {
	t.Helper()
	var conn *net.UDPConn
	must(t, inNamespace(namespace, func() (err error) {
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{Port: port})
		return err
	}))
	raw, err := conn.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20) }))
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return func(wait time.Duration) map[netip.AddrPort]int {
		seen := map[netip.AddrPort]int{}
		for {
			conn.SetReadDeadline(time.Now().Add(wait))
			_, sender, err := conn.ReadFromUDPAddrPort(make([]byte, 64))
			if err != nil {
				return seen
			}
			seen[sender]++
			wait = min(wait, 5*blocked)
		}
	}
}

func send(t *testing.T, namespace *os.File, source, target string, port int) {
	t.Helper()
	must(t, inNamespace(namespace, func() error {
		conn, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.ParseIP(source)}, &net.UDPAddr{IP: net.ParseIP(target), Port: port})
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte("x"))
		return err
	}))
}
