package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"
)

func left(t *testing.T, r *Router, slot, owner string) netip.Addr {
	t.Helper()
	a, err := r.Attach(slot)
	must(t, err)
	r.Leave(slot, owner)
	must(t, r.Release(slot))
	return a.Address
}

func TestAnAddressRestsFromAllButItsLastOwner(t *testing.T) {
	c := testConfig(t, UplinkNone)
	first, err := Open(context.Background(), c)
	must(t, err)
	address := left(t, first, "a", "alice")
	attach(t, first, "b")
	if _, err := first.Move("b", Wish{address, "bob"}); !errors.Is(err, ErrTaken) {
		t.Errorf("another owner's shell moved there: %v", err)
	}
	for _, owner := range []string{"bob", "", UnknownOwner} {
		if got, err := first.AttachAt("early-"+fmt.Sprint(len(owner)), Wish{address, owner}); err != nil || got.Address == address {
			t.Errorf("it is %q's at once: %v", owner, err)
		}
	}
	first.release()

	r := openTest(t, c) // the next hostd
	if got, err := r.AttachAt("c", Wish{address, "bob"}); err != nil || got.Address == address {
		t.Errorf("under the next hostd it is another owner's: %v", err)
	}
	if got, err := r.Move("c", Wish{address, "alice"}); err != nil || got.Address.Addr() != address {
		t.Errorf("its owner does not have it back: %v", err)
	}
	r.Leave("c", UnknownOwner)
	must(t, r.Release("c"))
	if got, err := r.AttachAt("d", Wish{address, UnknownOwner}); err != nil || got.Address == address {
		t.Errorf("it is of no known owner, and has not rested: %v", err)
	}
	must(t, os.Chtimes(r.restPath(r.indexAt(t, address)), time.Time{}, time.Now().Add(-restFor)))
	r.release()
	r = openTest(t, c)
	if got, err := r.AttachAt("e", Wish{address, "bob"}); err != nil || got.Address != address {
		t.Errorf("it has rested: %v", err)
	}
	if files, err := os.ReadDir(r.restDir()); err != nil || len(files) > 0 {
		t.Errorf("what has rested is still written down: %v, %v", files, err)
	}
}

func (r *Router) indexAt(t *testing.T, address netip.Addr) int {
	t.Helper()
	index, ok := r.indexOf(address)
	if !ok {
		t.Fatalf("%s is no machine's", address)
	}
	return index
}

func TestWhereEveryAddressRestsTheLongestRestedIsWaitedFor(t *testing.T) {
	c := testConfig(t, UplinkNone)
	c.MachineNetwork = netip.MustParsePrefix("10.117.0.0/26")
	c.restLeast = time.Hour
	r := openTest(t, c)
	var before []netip.Addr
	for i := range r.indexes() - firstIndex {
		before = append(before, left(t, r, fmt.Sprintf("s%d", i), fmt.Sprintf("owner-%d", i)))
	}
	now := time.Now()
	s, wait, err := r.tryReserve("early", Wish{}, now)
	if s != nil || err != nil || wait < time.Hour-time.Minute || wait > time.Hour {
		t.Fatalf("early: %v, %s, %v", s, wait, err)
	}
	if s, _, err := r.tryReserve("back", Wish{before[5], "owner-5"}, now); err != nil || r.address(s.index, 2) != before[5] {
		t.Errorf("an owner does not have its address back: %v", err)
	}
	r.config.restLeast = time.Nanosecond
	if got, err := r.Attach("next"); err != nil || got.Address != before[0] {
		t.Errorf("the one that has rested for longest is %s, and it is %v: %v", before[0], got, err)
	}
	r.config.restLeast = time.Millisecond
	if got, err := r.Attach("waits"); err != nil || got.Address != before[1] {
		t.Errorf("then %s, and it is %v: %v", before[1], got, err)
	}
}

func TestTheLeastRestCoversWhatLagsBehind(t *testing.T) {
	const linkTries, linkTry = 5, 2200 * time.Millisecond // from service/cell/filetree/executions/output.ts and agent-http.ts
	const resolverAnswer, proxyPause, hostContact = 5 * time.Second, 10 * time.Second, 2 * time.Second
	if lag := max(linkTries*linkTry, resolverAnswer, proxyPause, hostContact); restLeast < lag+2*time.Second {
		t.Errorf("%s of rest, and %s of lag", restLeast, lag)
	}
}
