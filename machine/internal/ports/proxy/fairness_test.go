package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/fakecell"
	"github.com/berth-dev/berth/machine/internal/testns"
)

// All addresses of 127.0.0.0/8 are this computer's.
func (w *world) dialFrom(address string) net.Conn {
	w.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := dialer.Dial("tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(testns.Patience(patienceT)))
	w.t.Cleanup(func() { conn.Close() })
	return conn
}

func ended(t testing.TB, conn net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, conn); isTimeout(err) {
		t.Fatal("the connection goes on")
	}
}

func (w *world) connected(many int) {
	w.t.Helper()
	for late := time.Now().Add(testns.Patience(patienceT)); w.server.lobby.many() != many; {
		if time.Now().After(late) {
			w.t.Fatalf("%d connections in the place of %d", w.server.lobby.many(), many)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestIdleConnectionsKeepNoVisitorOut(t *testing.T) {
	w := newWorld(t, streaming(t).Addr(), func(o *Options) { o.Bounds.Connections, o.Bounds.ConnectionsOfAClient = 6, 5 })
	_, busy := w.open(upgrade) // this client of 127.0.0.1 is in use
	var idle []net.Conn
	for range 5 {
		idle = append(idle, w.dialFrom("127.0.0.2"))
		w.connected(2 + len(idle) - 1)
	}
	visitor := w.dialFrom("127.0.0.3")
	ended(t, idle[0]) // of the client with the most connections, the one idle for longest ends
	response, _ := ask(t, visitor, bufio.NewReader(visitor), "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
	if response.StatusCode != 401 {
		t.Fatal(response.Status)
	}
	for i := range 8 { // each from its own address
		w.dialFrom(fmt.Sprintf("127.0.1.%d", i))
	}
	last := w.dialFrom("127.0.2.1")
	if response, _ := ask(t, last, bufio.NewReader(last), "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); response.StatusCode != 401 {
		t.Fatal(response.Status)
	}
	w.cell.Cut(w.lease(), "machine_moved", 503) // this connection had not ended before
	if _, err := busy.ReadByte(); err == nil {
		t.Fatal("the stream goes on")
	}
}

func TestAConnectionWithoutARequestEndsSoon(t *testing.T) {
	t.Parallel()
	change, _, _ := secured(t)
	soon := func(o *Options) { o.Times.First = 200 * time.Millisecond }
	ended(t, newWorld(t, answering(t, ok).Addr(), soon).dial())
	w := newWorld(t, answering(t, ok).Addr(), change, soon)
	client := w.client(true)
	r := h2Get(t, client)
	if r.StatusCode != 401 {
		t.Fatal(r.Status)
	}
	w.connected(1) // the connection with a request stays
	conn := w.tlsDial("h2")
	ended(t, conn)
	w.connected(1)
}

func filled(w *world) func(fakecell.Ask) any {
	return func(asked fakecell.Ask) any {
		if asked.Credential.Value == wrong {
			return nil
		}
		return w.grant()
	}
}

func begin(t testing.TB, w *world, from, host, token string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn := w.dialFrom(from)
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+host+"\r\nX-Service-Token: "+token+"\r\n\r\n")
	return conn, bufio.NewReader(conn)
}

func TestARequestOfAWorkspaceWithFewEndsOneOfAWorkspaceWithMany(t *testing.T) {
	w := newWorld(t, streaming(t).Addr())
	w.cell = fakecell.Start(t, filled(w))
	w.serve("127.0.0.1:0", func(o *Options) { o.Bounds.Requests = 4 })
	var greedy []net.Conn
	for range 4 {
		conn, reader := begin(t, w, "127.0.0.1", host, token)
		if _, err := reader.ReadString('x'); err != nil {
			t.Fatal(err)
		}
		greedy = append(greedy, conn)
	}
	for range 2 {
		_, reader := begin(t, w, "127.0.0.2", otherHost, token)
		if text, err := reader.ReadString('x'); err != nil {
			t.Fatal(text, err)
		}
	}
	_, reader := begin(t, w, "127.0.0.2", otherHost, token) // the workspace has its full share
	if line, _ := reader.ReadString('\n'); !strings.Contains(line, " 429 ") {
		t.Fatal(line)
	}
	gone := make(chan bool, len(greedy))
	for _, conn := range greedy {
		go func() {
			_, err := conn.Read(make([]byte, 1))
			gone <- err != nil
		}()
	}
	for range 2 {
		if !<-gone {
			t.Fatal("an app said more than it has")
		}
	}
}

func TestRequestsWithoutAGoodCredentialTakeNoPlaceOfTheWorkspaceThatTheyName(t *testing.T) {
	w := newWorld(t, streaming(t).Addr())
	w.cell = fakecell.Start(t, filled(w))
	w.serve("127.0.0.1:0", func(o *Options) { o.Bounds.RequestsOfAWorkspace, o.Bounds.RequestsUnproven = 2, 3 })
	for range 3 {
		begin(t, w, "127.0.0.9", host, wrong)
	}
	for late := time.Now().Add(testns.Patience(patienceT)); len(w.server.strangers.all()) < 3 && time.Now().Before(late); {
		time.Sleep(time.Millisecond)
	}
	for range 2 {
		_, reader := begin(t, w, "127.0.0.1", host, token)
		if text, err := reader.ReadString('x'); err != nil {
			t.Fatal(text, err)
		}
	}
	if strangers := w.server.strangers.all(); len(strangers) != 2 { // one ended in favour of the visitor's first request
		t.Fatal(len(strangers))
	}
}

// Once the cell has confirmed a sleeping machine's credential, a visitor is charged to the workspace.
func TestThoseWhoWaitForAWorkspaceCountForIt(t *testing.T) {
	w := newWorld(t, streaming(t).Addr())
	w.cell = fakecell.Start(t, func(asked fakecell.Ask) any {
		w.cell.Send(map[string]any{"known": map[string]any{"id": asked.ID}})
		return nil
	})
	w.serve("127.0.0.1:0", func(o *Options) { o.Bounds.RequestsUnproven = 1 })
	for i := range 5 {
		begin(t, w, "127.0.0.1", host, "sfp_"+fmt.Sprintf("%043d", i))
		for late := time.Now().Add(testns.Patience(patienceT)); len(w.server.workspaces.all()) <= i; time.Sleep(time.Millisecond) {
			if time.Now().After(late) {
				t.Fatal(i, len(w.server.workspaces.all()), len(w.server.strangers.all()))
			}
		}
	}
}

func TestPlacesAreCountedOnceAndGivenBack(t *testing.T) {
	var f fair[netip.Addr]
	one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	e := &exchange{}
	if !f.enter(one, e, 1, 2) || f.enter(one, &exchange{}, 1, 2) || !f.enter(other, e, 1, 2) {
		t.Fatal("the bound of each is another")
	}
	f.leave(one, e)
	f.leave(one, e)
	f.leave(other, e)
	for i := range 3 * emptyKept {
		client := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		f.enter(client, e, 1, 2)
		f.leave(client, e)
	}
	if f.many != 0 || len(f.of) > emptyKept+1 || len(f.all()) != 0 {
		t.Fatal(f.many, len(f.of))
	}
}
