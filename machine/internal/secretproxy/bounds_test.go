package secretproxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/fairshare"
)

// Bytes; TestOneMachineHoldsNoMoreThanItsShare measures some of these.
const (
	passedCost  = 44 << 10  // a connection that is passed on: two buffers, two stacks
	boundCost   = 234 << 10 // a connection whose TLS ends here: TLS, a head being read, unread data
	requestCost = 68 << 10  // its stacks and two buffers for bodies
	onwardCost  = 176 << 10 // TLS, buffers, a head being read, unread data
	headCost    = 2         // for each byte of heads, which are also encoded
	certificate = 8 << 10
	othersCost  = 16 << 20 // the program itself, and one answer of the cell
)

func TestBoundsTogetherFitTheProcess(t *testing.T) {
	all := loadTogether
	memory := (all[connections]-all[bound])*passedCost + all[bound]*boundCost + all[requests]*requestCost + all[headBytes]*headCost +
		all[onward]*onwardCost + answersTogether + certificatesMax*certificate + othersCost
	if limit := MemoryBytesMax / 4 * 3; memory > limit {
		t.Errorf("all bounds together are %d MiB, and Go keeps to %d", memory>>20, limit>>20)
	}
	if left := MemoryBytesMax / 4; socketsTogether > left {
		t.Errorf("sockets may hold %d MiB, and %d are left", socketsTogether>>20, left>>20)
	}
	for _, most := range []int{1024, 4096, 20_000, openFilesMax} {
		b := newBudget()
		b.fit(most)
		if files := 2*b.together[connections] + b.together[onward] + filesKept; files > most || b.together[connections] < 64 {
			t.Errorf("%d connections are %d files, of %d", b.together[connections], files, most)
		}
	}
	for m, n := range loadEach {
		if n > loadTogether[m]/2 {
			t.Errorf("measure %d: one machine may have %d of %d", m, n, loadTogether[m])
		}
	}
}

func TestAMachineWithLittleGetsRoomFromTheOneWithMost(t *testing.T) {
	b := newBudget()
	b.together[connections], b.together[requests] = 10, 6
	enter := func(machine byte) *flow {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { theirs.Close() })
		f := &flow{Conn: ours, machine: netip.AddrFrom4([4]byte{10, 0, 0, machine}), proxy: &Proxy{budget: b}}
		f.used.Store(time.Now().UnixNano())
		if !b.take(f, load{connections: 1}) {
			return nil
		}
		return f
	}
	first := []*flow{}
	for range 10 {
		first = append(first, enter(1))
	}
	if enter(1) != nil {
		t.Fatal("a machine takes from itself")
	}
	for range 5 {
		if enter(2) == nil {
			t.Fatal("a machine with less is refused")
		}
	}
	if enter(2) != nil || enter(1) != nil {
		t.Fatal("one of two machines gets more than half")
	}
	open := 0
	for i, f := range first {
		if f.closed != (i < 5) {
			t.Errorf("connection %d: closed is %v, and those that rested longest are to be", i, f.closed)
		}
		if !f.closed {
			open++
		}
	}
	busy := first[9]
	if !b.take(busy, load{requests: 6}) || b.take(busy, load{requests: 1}) {
		t.Fatal("the machine may have six requests")
	}
	third := enter(3)
	if third == nil || !b.take(third, load{requests: 1}) || !busy.closed || b.all[requests] != 1 {
		t.Fatal("the connection with most requests is to give way")
	}
	b.give(busy, load{requests: 6}) // the handlers of busy end later
	if b.all[requests] != 1 || b.all[connections] > 10 {
		t.Fatal(b.all)
	}
	for machine := range b.machines {
		for _, f := range b.flowsOf(machine) {
			f.Close()
		}
	}
	if b.all != (load{}) || len(b.machines) > 0 {
		t.Fatal("something is still held", b.all)
	}
}

func answerNothing(t *testing.T) (at netip.AddrPort, accepted *atomic.Int64) {
	t.Helper()
	accepted = new(atomic.Int64)
	listener := must(net.Listen("tcp4", "127.0.0.1:0"))
	held := []net.Conn{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			held = append(held, conn)
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
		for _, conn := range held {
			conn.Close()
		}
	})
	return netip.MustParseAddrPort(listener.Addr().String()), accepted
}

func (w *world) holds(m int) int {
	w.proxy.budget.mu.Lock()
	defer w.proxy.budget.mu.Unlock()
	return w.proxy.budget.all[m]
}

func inUse() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one empties pools
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

func TestOneMachineHoldsNoMoreThanItsShare(t *testing.T) {
	w := open(t, http.HandlerFunc(seen))
	to, accepted := answerNothing(t)
	w.set(func() { w.to = to; w.secrets[0].Hosts[0].Ports = []int{int(to.Port())} })
	w.proxy.handshake = time.Minute
	big := strings.Repeat("a", 24<<10)
	before := inUse()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	refused := atomic.Int64{}
	var asking sync.WaitGroup
	for range 12 {
		client := w.client(2)
		for range streamsEach {
			asking.Go(func() {
				request := must(http.NewRequestWithContext(ctx, "GET", w.url("/"), nil))
				request.Header.Set("X-Big", big)
				response, err := client.Do(request)
				if err == nil {
					response.Body.Close()
				}
				refused.Add(1) // or its connection was
			})
		}
	}
	eventually(t, "every request waits or is refused", func() bool {
		return w.holds(requests)+int(refused.Load()) == 12*streamsEach && accepted.Load() > 0
	})
	if got := w.holds(headBytes); got > loadEach[headBytes] || w.holds(requests) > loadEach[requests] || refused.Load() == 0 || w.holds(requests) < 64 {
		t.Errorf("%d requests of %d bytes are held, %d are refused", w.holds(requests), got, refused.Load())
	}
	most := w.holds(bound)*boundCost + w.holds(requests)*requestCost + w.holds(headBytes)*headCost + w.holds(onward)*onwardCost
	if held := inUse() - before; held > 2*most { // the machine's programs run in this process, too
		t.Errorf("%d KiB are held, and bounds say %d", held>>10, most>>10)
	}
	cancel()
	asking.Wait()
}

// The kernel charges unread bytes to the proxy's process.
func TestTheLargestSocketsOfTheMachineWithMostAreCut(t *testing.T) {
	listener := must(net.Listen("tcp4", "127.0.0.1:0"))
	defer listener.Close()
	at := func(machine byte, size int) (*flow, int) {
		sends := must(net.Dial("tcp4", listener.Addr().String()))
		conn := must(listener.Accept())
		t.Cleanup(func() { sends.Close(); conn.Close() })
		must(sends.Write(make([]byte, size)))
		f := &flow{Conn: conn, machine: netip.AddrFrom4([4]byte{10, 0, 0, machine})}
		eventually(t, "the bytes have come", func() bool { return f.socketBytes() >= size })
		return f, f.socketBytes()
	}
	most, mostBytes := at(1, 40<<10)
	more, moreBytes := at(1, 20<<10)
	other, otherBytes := at(2, 30<<10)
	all := []*flow{other, more, most}
	if got := largest(all, mostBytes+moreBytes+otherBytes, (*flow).socketBytes); len(got) > 0 {
		t.Fatal("one is cut within the bound")
	}
	if got := largest(all, moreBytes+otherBytes, (*flow).socketBytes); len(got) != 1 || got[0] != most {
		t.Fatalf("%d are cut, and not the largest of the machine with most", len(got))
	}
	if got := largest(all, moreBytes, (*flow).socketBytes); len(got) != 2 || got[1] != other {
		t.Fatalf("%d are cut, and not one of the machine that has more then", len(got))
	}
}

func TestAHeadOfTooManyFieldsIsNotRead(t *testing.T) {
	w := open(t, http.HandlerFunc(seen))
	for _, c := range []struct{ fields, size, status int }{{200, 4, 200}, {2000, 4, 400}, {10, 4000, 431}} {
		conn := w.tlsTo(boundHost)
		_, _ = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n%s\r\n", boundHost, strings.Repeat("a:"+strings.Repeat("a", c.size)+"\r\n", c.fields))
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || response.StatusCode != c.status {
			t.Errorf("%+v: %v %v", c, response, err)
		}
	}
	conn := w.tlsTo(boundHost)
	reader := bufio.NewReader(conn)
	for range 3 { // lines of bodies, and of earlier heads, do not count
		body := strings.Repeat("\n", 1000)
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n%s\r\n%s", boundHost, len(body), strings.Repeat("a: b\r\n", 150), body)
		response := must(http.ReadResponse(reader, nil))
		if got := bodyOf(t, response); response.StatusCode != http.StatusOK || !strings.HasSuffix(got, body) {
			t.Fatal(response.Status, got)
		}
	}
}

func TestAMachineBeginsNoMoreConnectionsThanItsShare(t *testing.T) {
	w := open(t, http.HandlerFunc(seen))
	certificate := must(w.servers.certify(boundHost, time.Now()))
	closing := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }))
	closing.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}}
	closing.StartTLS()
	defer closing.Close()
	w.set(func() {
		w.to = netip.MustParseAddrPort(closing.Listener.Addr().String())
		w.secrets[0].Hosts[0].Ports = []int{int(w.to.Port())}
	})
	const share = 5
	w.proxy.tracked = &fairshare.Shares[netip.Addr]{Each: share, Least: 1, Together: 1000}
	client := w.client(2)
	statuses := []int{}
	for range share + 2 {
		response := must(client.Get(w.url("/")))
		bodyOf(t, response)
		statuses = append(statuses, response.StatusCode)
	}
	if fmt.Sprint(statuses) != "[200 200 200 200 200 429 429]" {
		t.Fatal(statuses)
	}
}
