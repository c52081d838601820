package hostd

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/resolver"
	"github.com/berth-dev/berth/machine/internal/wire"
)

var someMachine = netip.MustParseAddr("10.200.0.10")

func linked(t *testing.T, n *resolverLink) (link *nameLink, theirs net.Conn, ended chan struct{}) {
	t.Helper()
	ours, file, err := linkPair()
	must(t, err)
	theirs, err = net.FileConn(file)
	must(t, err)
	file.Close()
	ended = make(chan struct{}, 8)
	link = &nameLink{conn: ours, gone: make(chan struct{}), waiting: map[uint64]chan struct{}{}, end: func() { ended <- struct{}{} }}
	must(t, n.begin(link, func() error { return nil }))
	t.Cleanup(func() { theirs.Close() })
	return link, theirs, ended
}

func read(t *testing.T, conn net.Conn) (message resolver.FromHost) {
	t.Helper()
	lines := bufio.NewScanner(conn)
	if !lines.Scan() {
		t.Fatalf("nothing was told: %v", lines.Err())
	}
	must(t, json.Unmarshal(lines.Bytes(), &message))
	return message
}

func denyAll() *wire.HostEgress {
	return &wire.HostEgress{Revision: "r1", Mode: wire.EgressDenyAll, Rules: []wire.HostEgressRule{}, CIDRs: []string{}}
}

func TestAPolicyWaitsUntilTheResolverSaysThatItTookIt(t *testing.T) {
	h := &Host{names: newNames()}
	h.names.noOlderResolver()
	link, theirs, _ := linked(t, h.names)
	go h.listenToResolver(link)
	told := make(chan error, 1)
	go func() { told <- h.names.tell(t.Context(), someMachine, denyAll()) }()
	message := read(t, theirs)
	if len(message.Policies) != 1 || message.Policies[someMachine].Mode != wire.EgressDenyAll {
		t.Errorf("told: %+v", message)
	}
	select {
	case err := <-told:
		t.Fatalf("before it was acknowledged: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	fmt.Fprintf(theirs, `{"ack":%d}`+"\n", message.ID)
	must(t, <-told)
}

func TestAPolicyWaitsForTheResolverOfAnEarlierHostdToBeGone(t *testing.T) {
	n := newNames()
	ctx, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	if err := n.tell(ctx, someMachine, denyAll()); err == nil {
		t.Error("an older resolver may answer still, and it was called in force")
	}
	n.noOlderResolver()
	must(t, n.tell(t.Context(), someMachine, denyAll())) // no resolver runs: the next one starts with the policy
}

func TestAResolverThatTakesNoPolicyIsEndedAndThePolicyHoldsThen(t *testing.T) {
	n := newNames()
	n.noOlderResolver()
	link, theirs, ended := linked(t, n)
	told := make(chan error, 1)
	go func() { told <- n.tell(t.Context(), someMachine, denyAll()) }()
	read(t, theirs)
	<-ended
	select {
	case err := <-told:
		t.Fatalf("before its end: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	n.over(link)
	must(t, <-told)
}

func TestAResolverThatSaysWhatCannotBeReadIsEnded(t *testing.T) {
	for _, said := range []string{"nonsense\n", `{"ack":"x"}` + "\n", string(make([]byte, resolver.LineBytesMax+2))} {
		h := &Host{names: newNames(), log: slog.New(slog.DiscardHandler)}
		link, theirs, ended := linked(t, h.names)
		go h.listenToResolver(link)
		go theirs.Write([]byte(said))
		<-ended
		theirs.Close()
	}
}

func TestRefusedNamesOfAMachineAreBoundedAndChecked(t *testing.T) {
	n, now := newNames(), time.Now()
	for i := range 2 * deniedNamesMax {
		n.deny(resolver.Denied{Machine: someMachine, Name: fmt.Sprintf("n%d.example.com.", i), Count: 1}, now.Add(time.Duration(i)*time.Second))
	}
	last := fmt.Sprintf("n%d.example.com", 2*deniedNamesMax-1)
	n.deny(resolver.Denied{Machine: someMachine, Name: last, Count: 4}, now.Add(time.Hour))
	for _, bad := range []resolver.Denied{{Machine: someMachine, Name: "a\nb", Count: 1}, {Machine: someMachine, Name: "zero", Count: 0}, {Machine: someMachine, Name: "ä", Count: 1}} {
		n.deny(bad, now)
	}
	list := n.refusedTo(someMachine, now.Add(time.Hour))
	found := false
	for _, one := range list {
		if *one.Name == last {
			found = one.Count == 5 && one.Address == nil && one.Protocol == wire.DeniedDNS && one.LastAt == stamp(now.Add(time.Hour)) && one.FirstAt < one.LastAt
		}
	}
	if len(list) != deniedNamesMax || !found {
		t.Errorf("%d are known, the last one %v", len(list), found)
	}
	if list := n.refusedTo(someMachine, now.Add(2*deniedNamesKept)); len(list) != 0 {
		t.Errorf("after a day: %d", len(list))
	}
	n.isLetOut = func(machine netip.Addr) bool { return machine != someMachine }
	n.deny(resolver.Denied{Machine: someMachine, Name: "told.late.", Count: 1}, now)
	if list := n.refusedTo(someMachine, now); len(list) != 0 {
		t.Errorf("kept for an address where no machine is: %+v", list)
	}
	n.isLetOut = func(netip.Addr) bool { return true }
	n.deny(resolver.Denied{Machine: someMachine, Name: "a.", Count: 1}, now)
	n.forget(someMachine)
	if list := n.refusedTo(someMachine, now); len(list) != 0 {
		t.Errorf("of a machine that is gone: %+v", list)
	}
}

func TestChangesOfOneMachinesPolicyTakeTurnsAndOthersDoNot(t *testing.T) {
	var p policing
	release, err := p.acquire(t.Context(), "a")
	must(t, err)
	other, err := p.acquire(t.Context(), "b")
	must(t, err)
	other()
	ctx, end := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer end()
	if _, err := p.acquire(ctx, "a"); err == nil {
		t.Error("two at a time")
	}
	release()
	again, err := p.acquire(t.Context(), "a")
	must(t, err)
	again()
	if len(p.turns) != 0 {
		t.Errorf("turns are left: %v", p.turns)
	}
}

func TestTheLinksFileIsTheProcesssAlone(t *testing.T) {
	ours, theirs, err := linkPair()
	must(t, err)
	defer ours.Close()
	must(t, theirs.Close())
	if _, err := ours.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("the other end is still open: %v", err)
	}
}
