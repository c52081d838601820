package network

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func flow(t *testing.T, m machine, first, count int) {
	t.Helper()
	must(t, inNamespace(m.ns, func() error {
		for port := first; port < first+count; port++ {
			conn, err := net.DialUDP("udp4", &net.UDPAddr{Port: port}, &net.UDPAddr{IP: net.ParseIP(public), Port: 9999})
			if err != nil {
				return err
			}
			conn.Write([]byte("x"))
			conn.Close()
		}
		return nil
	}))
}

func TestTrackedConnectionsOfOneMachineAreCapped(t *testing.T) {
	uplink := testNamespace(t, public)
	r := openTest(t, testConfig(t, uplink.Name()))
	a, b := attach(t, r, "a"), attach(t, r, "b")
	must(t, errors.Join(r.Connect("a"), r.Connect("b")))
	received := receive(t, uplink, 9999)
	most := flowsMax[0]
	flow(t, a, 10000, most+300)
	if got := len(received(arrives)); got > most+1 || got < most-10 {
		t.Errorf("%d of %d flows came through", got, most+300)
	}
	send(t, b.ns, "", public, 9999)
	if got := received(arrives); len(got) != 1 {
		t.Errorf("the other machine was not let through: %v", got)
	}
}

func (w *policed) brief(number int) (came int) {
	for range number {
		if conn, err := dial(w.a.ns, public, 443, 50*time.Millisecond); err == nil {
			conn.Close()
			came++
		}
	}
	return came
}

func TestConnectionsThatEndedAreAShareOfWhatIsTracked(t *testing.T) {
	w := openPolicedWith(t, func(c *Config) { c.conntrackMax = 1 }, mode("open", wire.EgressAllowAll)) // the lowest limit applies
	most := flowsMax[len(flowsMax)-1] / paceShare
	came := w.brief(4 * most)
	if came < most || came > 2*most { // a minute allows as many again
		t.Errorf("%d connections left the machine, and %d in a minute may", came, most)
	}
	if left := len(conntrackTo(t, w.r)); left > 2*most {
		t.Errorf("%d are tracked", left)
	}
}

func TestAllMachinesTogetherLeaveMostOfTheTrackedConnectionsToTheHost(t *testing.T) {
	uplink := testNamespace(t, public)
	c := testConfig(t, uplink.Name())
	each := flowsMax[2:] // for one machine, and for up to four
	c.conntrackMax = each[0] * conntrackShare
	r := openTest(t, c)
	a, b := attach(t, r, "a"), attach(t, r, "b")
	received := receive(t, uplink, 9999)
	came := func() int { return len(received(arrives)) }
	must(t, r.Connect("a"))
	flow(t, a, 10000, each[0]+50)
	if got := came(); got > each[0]+1 || got < each[0]-10 {
		t.Fatalf("alone: %d flows came through", got)
	}

	must(t, r.Connect("b"))
	flow(t, b, 20000, each[0])
	if got := came(); got > each[1]+1 || got < each[1]-10 {
		t.Errorf("the second machine had %d flows, and %d together stay within the bound", got, c.conntrackMax/conntrackShare)
	}
	flow(t, a, 10000, 1)
	if got := came(); got != 1 {
		t.Errorf("a flow of before is cut off: %d", got)
	}
	flow(t, a, 30000, each[0])
	if got := came(); got > each[1]+1 {
		t.Errorf("the first machine had %d flows more", got)
	}

	must(t, r.Release("a"))
	flow(t, b, 40000, each[0])
	if got := came(); got < each[0]-10 {
		t.Errorf("alone again: %d flows came through", got)
	}
}

func TestPacketsOfOneMachineAreBoundedInTime(t *testing.T) {
	uplink := testNamespace(t, public)
	c := testConfig(t, uplink.Name())
	c.packetsPerSecond = 100
	r := openTest(t, c)
	a, b := attach(t, r, "a"), attach(t, r, "b")
	must(t, errors.Join(r.Connect("a"), r.Connect("b")))
	received := receive(t, uplink, 9999)
	began := time.Now()
	const sent = 5000
	must(t, inNamespace(a.ns, func() error {
		conn, err := net.DialUDP("udp4", &net.UDPAddr{Port: 10000}, &net.UDPAddr{IP: net.ParseIP(public), Port: 9999})
		if err != nil {
			return err
		}
		defer conn.Close()
		for range sent {
			conn.Write([]byte("x"))
		}
		return nil
	}))
	sending := time.Since(began)
	got := 0
	for _, packets := range received(arrives) {
		got += packets
	}
	most := 50 + int(100*sending.Seconds()) + 1
	if got > most || got < 40 {
		t.Errorf("%d of %d packets came through in %s; the bound is %d", got, sent, sending, most)
	}
	send(t, b.ns, "", public, 9999)
	if got := received(arrives); len(got) != 1 {
		t.Errorf("the other machine was not let through: %v", got)
	}
}
