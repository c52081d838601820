package question

import (
	"fmt"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/door"
)

const victim = "agnlulephz6udhcvaerukz4jvm"

func asked(host, client, value string) (Question, leaseKey) {
	credential := door.Credential{Kind: door.Token, Value: value}
	q := Question{Place: door.Place{Port: 3000, HostID: host}, Credential: credential, Client: netip.MustParseAddr(client)}
	return q, leaseKey{q.Place, q.Credential}
}

func (b *budgets) ask(host, client, value string, now time.Time) bool {
	q, key := asked(host, client, value)
	return b.take(q, key, now)
}

func TestStrangersKeepNoVisitorOut(t *testing.T) {
	now := time.Now()
	for name, strangers := range map[string]func(b *budgets, i int){
		"of one network of IPv6":                 func(b *budgets, i int) { b.ask(victim, fmt.Sprintf("2001:db8::%x", i), "x", now) },
		"of many networks":                       func(b *budgets, i int) { b.ask(victim, fmt.Sprintf("2001:db8:%x:%x::1", i>>16, i&0xffff), "x", now) },
		"of one address, naming many workspaces": func(b *budgets, i int) { b.ask("h"+strconv.Itoa(i), "203.0.113.9", "x", now) },
		"of few addresses, naming one workspace": func(b *budgets, i int) { b.ask(victim, fmt.Sprintf("203.0.113.%d", i%3), "x", now) },
	} {
		b := newBudgets()
		for i := range 2 * budgetsMax {
			strangers(&b, i)
		}
		if !b.ask(victim, "198.51.100.7", "first", now) {
			t.Errorf("%s: a first visitor is refused", name)
		}
		if len(b.clients.found) > budgetsMax || len(b.hosts.found) > 0 {
			t.Errorf("%s: %d clients and %d workspaces are remembered", name, len(b.clients.found), len(b.hosts.found))
		}
	}
}

func TestAStrangersBudgetIsItsOwnAlsoOverANetworkOfIPv6(t *testing.T) {
	b, now, let := newBudgets(), time.Now(), 0
	for i := range 1_000 {
		if b.ask(victim, fmt.Sprintf("2001:db8::%x", i), "x"+strconv.Itoa(i), now) {
			let++
		}
	}
	if let != perClient*burstSeconds {
		t.Fatal(let)
	}
}

func TestACredentialThatWasGoodIsAskedForWhateverItsAddressAsks(t *testing.T) {
	b, now := newBudgets(), time.Now()
	_, good := asked(victim, "198.51.100.7", "good")
	b.good.remember(good)
	for i := range 1_000 { // unknown clients behind the same address
		b.ask(victim, "198.51.100.7", strconv.Itoa(i), now)
	}
	for i := range perHost * burstSeconds {
		if !b.ask(victim, "198.51.100.7", "good", now) {
			t.Fatalf("refused after %d", i)
		}
	}
	if b.ask(victim, "198.51.100.7", "good", now) {
		t.Fatal("a workspace has no bound")
	}
	b.good.forget(good)
	if b.good.has(good) || b.good.many != 0 || len(b.good.hosts) != 0 {
		t.Fatal("what is no longer good is remembered")
	}
}

func TestAWorkspaceWithManyCredentialsForgetsItsOwn(t *testing.T) {
	var p proven
	_, good := asked(victim, "198.51.100.7", "good")
	p.remember(good)
	for i := range 3 * provenMax {
		_, key := asked("h"+strconv.Itoa(i%30), "198.51.100.7", strconv.Itoa(i))
		p.remember(key)
		if p.many > provenMax {
			t.Fatal(p.many)
		}
	}
	if !p.has(good) {
		t.Fatal("another workspace's is forgotten")
	}
	held := 0
	for _, host := range p.hosts {
		held += len(host.found)
	}
	if held != p.many {
		t.Fatal(held, p.many)
	}
}

func TestLeasesOfAWorkspaceLeaveRoomForOthers(t *testing.T) {
	l, now := NewLink(Options{}), time.Now()
	for i := range leasesMax {
		q, key := asked("greedy", "198.51.100.7", strconv.Itoa(i))
		l.leases[key] = &Lease{link: l, question: q, state: granted, changed: make(chan struct{})}
	}
	q, key := asked(victim, "192.0.2.1", "good")
	if _, refusal := l.newLease(key, q, now); refusal != nil {
		t.Fatal(refusal)
	}
	l.makeRoom(now)
	if l.leases[key] == nil || len(l.leases) > leasesMax {
		t.Fatal(len(l.leases))
	}
}
