package network

import (
	"context"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/google/nftables"
)

func exchange(t *testing.T, conn net.Conn, bytes int) {
	t.Helper()
	defer conn.Close()
	line(t, conn)
	must(t, conn.SetDeadline(time.Now().Add(arrives)))
	go conn.Write(make([]byte, bytes))
	_, err := io.ReadFull(conn, make([]byte, bytes))
	must(t, err)
}

func near(got, bytes int64) bool { return got >= bytes && got <= bytes+bytes/10+5000 }

func TestTrafficIsWhatAMachineExchangesWithOthersThanItsHost(t *testing.T) {
	const megabyte = 1 << 20
	uplink := testNamespace(t, public, "10.9.9.9")
	c := testConfig(t, uplink.Name())
	r := openTest(t, c)
	a, b := attach(t, r, "a"), attach(t, r, "b")
	must(t, r.Connect("a"))
	serve(t, uplink, 80)
	serve(t, a.ns, 65100)
	told := func(slot string, received, sent int64) {
		t.Helper()
		if got, err := r.Traffic(slot); err != nil || !near(got.Received, received) || !near(got.Sent, sent) {
			t.Errorf("%s: %+v, %v; wanted %d and %d", slot, got, err, received, sent)
		}
	}
	call := func(from machine) {
		t.Helper()
		conn, err := dial(from.ns, public, 80, arrives)
		must(t, err)
		exchange(t, conn, megabyte)
	}

	told("a", 0, 0)
	conn, err := dial(hostNamespace(t), a.Address.String(), 65100, arrives)
	must(t, err)
	exchange(t, conn, megabyte) // the agent's traffic, and that of ports
	for range 100 {
		send(t, a.ns, a.Address.String(), "10.9.9.9", 9)             // refused
		send(t, a.ns, a.Address.String(), a.Nameserver.String(), 53) // a DNS question
	}
	if got, err := r.Traffic("a"); err != nil || got != (Traffic{}) {
		t.Errorf("of the host, of what is refused and of names: %+v, %v", got, err)
	}
	call(a)
	told("a", megabyte, megabyte)
	told("b", 0, 0)

	must(t, r.rules.change(func() error { r.rules.conn.DelTable(r.rules.machines.Table); return nil }))
	must(t, r.reload(errForeignChange))
	call(a)
	told("a", 2*megabyte, 2*megabyte)
	r.release()
	r, err = Open(context.Background(), c)
	must(t, err)
	defer func() { must(t, r.Close()) }()
	call(a)
	told("a", 3*megabyte, 3*megabyte)

	address := a.Address
	must(t, r.Release("a"))
	for _, set := range []*nftables.Set{r.rules.traffic.sent, r.rules.traffic.received} {
		if bytes, err := r.rules.bytesOf(set, address); bytes != 0 || err != nil {
			t.Errorf("after its release: %d bytes, %v", bytes, err)
		}
	}
	must(t, r.Connect("b"))
	call(b)
	told("b", megabyte, megabyte)
	must(t, deleteLink(r.links, r.machineLink(r.slots["b"].link)))
	r.release()
	r, err = Open(context.Background(), c)
	must(t, err)
	if left, err := r.rules.elements(r.rules.traffic.sent); len(left) != 0 || err != nil {
		t.Errorf("left of a machine that is gone: %v, %v", left, err)
	}
}

func TestTrafficThroughTheHostsOwnUplinkIsTheMachinesAndNotTheHosts(t *testing.T) {
	host, world := hostNamespace(t), testNamespace(t, public)
	joinWorld(t, host, world)
	r := openTest(t, testConfig(t, UplinkHost))
	a := attach(t, r, "a")
	must(t, r.Connect("a"))
	serve(t, world, 80)
	serve(t, a.ns, 65100)
	through := func(from *os.File, address string, port int) {
		t.Helper()
		conn, err := dial(from, address, port, arrives)
		must(t, err)
		exchange(t, conn, 1<<20)
	}
	through(host, a.Address.String(), 65100)
	if got, err := r.Traffic("a"); err != nil || got != (Traffic{}) {
		t.Errorf("the host's own: %+v, %v", got, err)
	}
	through(a.ns, public, 80)
	if got, err := r.Traffic("a"); err != nil || !near(got.Received, 1<<20) || !near(got.Sent, 1<<20) {
		t.Errorf("the machine's: %+v, %v", got, err)
	}
	if rx, tx, err := r.Stats("a"); err != nil || rx < 2<<20 || tx < 2<<20 {
		t.Errorf("of its link: %d, %d, %v", rx, tx, err)
	}
}
