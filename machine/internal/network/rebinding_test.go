package network

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/resolver"
	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const rebinds = "rebinds.example.com"

func answerInTurns(t *testing.T, namespace *os.File, turns ...[]string) {
	t.Helper()
	var asked atomic.Int64
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		answer := new(dns.Msg)
		answer.SetReply(q)
		for _, address := range turns[int(asked.Add(1)-1)%len(turns)] {
			answer.Answer = append(answer.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.ParseIP(address)})
		}
		w.WriteMsg(answer)
	})
	var udp net.PacketConn
	must(t, inNamespace(namespace, func() (err error) {
		udp, err = net.ListenPacket("udp4", nameserver+":53")
		return err
	}))
	go (&dns.Server{PacketConn: udp, Handler: handler}).ActivateAndServe()
	t.Cleanup(func() { udp.Close() })
}

func servePolicedDNS(t *testing.T, r *Router, policies map[netip.Addr]wire.HostEgress) {
	t.Helper()
	sockets, err := r.ListenForNames()
	must(t, err)
	defer sockets.Close()
	udp, err := net.FilePacketConn(sockets.UDP)
	must(t, err)
	tcp, err := net.FileListener(sockets.TCP)
	must(t, err)
	server := &resolver.Server{Blocked: r.NamesSetup().Blocked, Resolvers: func() []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort(nameserver + ":53")} },
		Dial: func(_ context.Context, network string, to netip.AddrPort) (conn net.Conn, err error) {
			err = r.WherePacketsLeave(func() error {
				conn, err = net.DialTimeout(network, to.String(), arrives)
				return err
			})
			return conn, err
		}}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	connOf := func(fd int) net.Conn {
		file := os.NewFile(uintptr(fd), "link")
		defer file.Close()
		conn, err := net.FileConn(file)
		must(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	ours := connOf(ends[0])
	server.Police(connOf(ends[1]), policies)
	go func() {
		for lines := bufio.NewScanner(ours); lines.Scan(); {
			var message resolver.ToHost
			if json.Unmarshal(lines.Bytes(), &message) != nil || message.Grant == nil {
				continue
			}
			g := message.Grant
			err := r.Grant(g.Machine, g.Name, g.Addresses, time.Minute)
			text, _ := json.Marshal(resolver.FromHost{ID: g.ID, Grant: true, Granted: err == nil})
			ours.Write(append(text, '\n'))
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, udp, tcp) }()
	t.Cleanup(func() { cancel(); must(t, <-ended) })
}

func arrivals(t *testing.T, namespace *os.File, address string, port string) *atomic.Int64 {
	t.Helper()
	count := &atomic.Int64{}
	var listener net.Listener
	must(t, inNamespace(namespace, func() (err error) {
		listener, err = net.Listen("tcp4", net.JoinHostPort(address, port))
		return err
	}))
	t.Cleanup(func() { listener.Close() })
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			count.Add(1)
			conn.Close()
		}
	}()
	return count
}

// The owner of an allowed name may later make it resolve to private addresses.
func TestAnAllowedNameThatIsReboundToPrivateAddressesLeadsToNone(t *testing.T) {
	private := []string{"10.9.9.9", "169.254.169.254", "192.168.77.1", "127.0.0.1"}
	uplink := testNamespace(t, public, nameserver, private[0], private[1], private[2])
	answerInTurns(t, uplink, []string{public}, []string{private[0]}, []string{public, private[1]}, []string{private[2], private[3]})
	c := testConfig(t, uplink.Name())
	c.Resolvers = []string{nameserver}
	r := openTest(t, c)
	a := attach(t, r, "a")
	policy := allowlist("r1", nil, rebinds)
	must(t, errors.Join(r.SetEgress("a", policy), r.Connect("a")))
	servePolicedDNS(t, r, map[netip.Addr]wire.HostEgress{a.Address: policy})
	inside := []*atomic.Int64{}
	for _, address := range private[:3] {
		inside = append(inside, arrivals(t, uplink, address, "443"))
	}
	outside := arrivals(t, uplink, public, "443")

	reached := int64(0)
	for i := range testns.Depth(20, 1000) {
		answer, err := ask(t, a, "udp", rebinds+".")
		must(t, err)
		for _, record := range answer.Answer {
			found, ok := record.(*dns.A)
			if ok && !found.A.Equal(net.ParseIP(public)) {
				t.Fatalf("try %d: the answer has %s", i, found.A)
			}
			if conn, err := dial(a.ns, public, 443, arrives); err != nil {
				t.Errorf("try %d: %v", i, err)
			} else {
				conn.Close()
				reached++
			}
		}
		// A program may ask another resolver, or remember or guess an address.
		for _, address := range private[:3] {
			if conn, err := dial(a.ns, address, 443, arrives); !errors.Is(err, unix.ECONNREFUSED) {
				if err == nil {
					conn.Close()
				}
				t.Fatalf("try %d: %s: %v", i, address, err)
			}
		}
	}
	if reached == 0 || outside.Load() == 0 {
		t.Errorf("the public address was reached %d times, and saw %d", reached, outside.Load())
	}
	for i, count := range inside {
		if got := count.Load(); got != 0 {
			t.Errorf("%s was reached %d times", private[i], got)
		}
	}
}

func TestWhatIsLeftOfAHostsConnectionIsNotToldAsRefused(t *testing.T) {
	w := openPoliced(t, mode("r1", wire.EgressDenyAll))
	var listener net.Listener
	must(t, inNamespace(w.a.ns, func() (err error) {
		listener, err = net.Listen("tcp4", "0.0.0.0:65100")
		return err
	}))
	defer listener.Close()
	conn, err := dial(hostNamespace(t), w.a.Address.String(), 65100, arrives)
	must(t, err)
	defer conn.Close()
	served, err := listener.Accept()
	must(t, err)
	defer served.Close()
	must(t, w.r.forgetFlows(w.a.Address))
	served.Write([]byte("x")) // resent until the host acknowledges it
	w.refusedAtOnce("a new one", w.r.hostAddress().String(), 443)
	time.Sleep(blocked)
	if got := w.refusals(); len(got) != 1 || got[0].Port != 443 {
		t.Errorf("told as refused: %+v", got)
	}
}
