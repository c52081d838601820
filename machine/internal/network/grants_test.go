package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestAnAddressEndsWithItsTimeAndStaysWhileAConnectionLasts(t *testing.T) {
	w := openPoliced(t, allowlist("r1", nil, "api.example.com", "other.example.com"))
	s := w.r.slots["a"]
	must(t, w.grant("api.example.com", public, second))
	must(t, w.grant("other.example.com", second))
	conn := w.open(public, 443)
	ends := s.outlet.grants[netip.MustParseAddr(public)].last()
	if left := time.Until(ends); left > 2*usable || left < 2*usable-arrives {
		t.Errorf("it ends in %s", left)
	}
	must(t, w.r.keepGrants(ends.Add(-time.Second))) // keepGrants sees the open connection
	if now := s.outlet.grants[netip.MustParseAddr(public)].last(); !now.After(ends) {
		t.Errorf("it is not kept: %s, %s", now, ends)
	}
	if now := s.outlet.grants[netip.MustParseAddr(second)].last(); now.After(ends.Add(time.Minute)) {
		t.Errorf("it is kept without a connection: %s, %s", now, ends)
	}
	elements, err := w.r.rules.elements(w.r.namesOf(s, s.outlet))
	must(t, err)
	comments := map[string]string{}
	for _, element := range elements {
		address, port, _ := splitPortKey(element.Key)
		comments[fmt.Sprintf("%s:%d", address, port)] = element.Comment
	}
	if len(comments) != 2 || comments[public+":443"] != "api.example.com" || comments[second+":443"] != "api.example.com other.example.com" {
		t.Errorf("the kernel holds %v", comments)
	}
	s.outlet.grants[netip.MustParseAddr(second)].until = map[string]time.Time{"api.example.com": time.Now().Add(-time.Hour)}
	w.set(allowlist("r2", nil, "api.example.com"))
	w.refusedAtOnce("its time is over", second, 443)
	w.carries("it was kept", conn, true)
}

func TestNamesOfOneAddressAreBounded(t *testing.T) {
	w := openPoliced(t, allowlist("r1", nil, "*.example.com"))
	for i := range 3 * addressNamesMax {
		must(t, w.grant(fmt.Sprintf("n%d.example.com", i), public))
	}
	if got := w.r.slots["a"].outlet.grants[netip.MustParseAddr(public)]; len(got.until) != addressNamesMax {
		t.Errorf("%d names", len(got.until))
	}
	w.reaches(public, 443)
}

func TestWhatOneMachineIsGrantedIsBounded(t *testing.T) {
	w := openPoliced(t, allowlist("r1", nil, "*.example.com"))
	s := w.r.slots["a"]
	address := netip.MustParseAddr("198.20.0.0")
	var err error
	granted := 0
	for range 2000 {
		list := []netip.Addr{}
		for range 16 {
			address = address.Next()
			list = append(list, address)
		}
		if err = w.r.Grant(w.a.Address, "x.example.com", list, usable); err != nil {
			break
		}
		granted++
	}
	if !errors.Is(err, errTooFast) || granted < grantsBurst {
		t.Errorf("%d answers, then %v", granted, err)
	}
	elements, err := w.r.rules.elements(w.r.namesOf(s, s.outlet))
	must(t, err)
	if len(elements) != outletAddressesMax || len(s.outlet.grants) != outletAddressesMax {
		t.Errorf("%d elements, %d addresses", len(elements), len(s.outlet.grants))
	}
}

func TestManyRulesOfManyMachinesCostAPacketNothingAndAChangeLittle(t *testing.T) {
	const machines, rulesEach = 40, 250
	uplink := testNamespace(t, public)
	serve(t, uplink, 443)
	r := openTest(t, testConfig(t, uplink.Name()))
	rulesOf := func(revision string, slot int) wire.HostEgress {
		hosts := []string{}
		for i := range rulesEach {
			hosts = append(hosts, fmt.Sprintf("h%d.m%d.example.com", i, slot))
		}
		return allowlist(revision, nil, hosts...)
	}
	first := attach(t, r, "first")
	must(t, errors.Join(r.SetEgress("first", allowlist("r1", nil, "api.example.com")), r.Connect("first")))
	must(t, r.Grant(first.Address, "api.example.com", []netip.Addr{netip.MustParseAddr(public)}, usable))
	alone := roundTrips(t, first)
	var all []machine
	for slot := range machines {
		name := fmt.Sprintf("s%d", slot)
		all = append(all, attach(t, r, name))
		must(t, errors.Join(r.SetEgress(name, rulesOf("r1", slot)), r.Connect(name)))
		for i := range rulesEach {
			if i%25 == 0 { // enough addresses for every machine
				address := netip.AddrFrom4([4]byte{198, 20, byte(slot), byte(i)})
				must(t, r.Grant(all[slot].Address, fmt.Sprintf("h%d.m%d.example.com", i, slot), []netip.Addr{address}, usable))
			}
		}
	}
	among := roundTrips(t, first)
	began := time.Now()
	for slot := range machines {
		must(t, r.SetEgress(fmt.Sprintf("s%d", slot), rulesOf("r2", slot)))
	}
	changed := time.Since(began)
	began = time.Now()
	must(t, r.loadRules())
	t.Logf("a round trip: %s alone, %s among %d rules; %d policies changed in %s; all put in anew in %s", alone, among, machines*rulesEach, machines, changed, time.Since(began))
	if changed > arrives/2 {
		t.Errorf("%d changes took %s", machines, changed)
	}
	call(t, first.ns, public, 443)
}

func TestMachinesThatFloodWithRefusedPacketsAndNamesLeaveAnotherUntouched(t *testing.T) {
	w := openPoliced(t, allowlist("r1", nil, "api.example.com"))
	ctx, stop := context.WithCancel(t.Context())
	var flooding sync.WaitGroup
	defer func() { stop(); flooding.Wait() }()
	for i := range 8 {
		name := fmt.Sprintf("flood%d", i)
		m := attach(t, w.r, name)
		must(t, errors.Join(w.r.SetEgress(name, allowlist("r1", nil, "*.flood.example.com")), w.r.Connect(name)))
		flooding.Go(func() {
			inNamespace(m.ns, func() error {
				socket, err := net.ListenUDP("udp4", nil)
				if err != nil {
					return err
				}
				defer socket.Close()
				for n := uint32(0); ctx.Err() == nil; n++ {
					socket.WriteToUDP([]byte("x"), &net.UDPAddr{IP: net.IPv4(198, 20, byte(n>>8), byte(n)), Port: 443})
				}
				return nil
			})
		})
		flooding.Go(func() {
			address := netip.AddrFrom4([4]byte{198, 21, byte(i), 0})
			for ctx.Err() == nil {
				address = address.Next()
				w.r.Grant(m.Address, "x.flood.example.com", []netip.Addr{address}, usable)
			}
		})
	}
	for range 20 {
		must(t, w.grant("api.example.com", public))
		w.reaches(public, 443)
		w.refusedAtOnce("still heard", second, 443)
	}
	began := time.Now()
	w.set(mode("r2", wire.EgressDenyAll))
	t.Logf("a change beside eight that flood: %s", time.Since(began))
	w.refusedAtOnce("denied", public, 443)
}
