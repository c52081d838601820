package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func closed(t *testing.T) net.Addr {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr()
}

func lasting(start time.Duration) change { return func(o *Options) { o.Times.Start = start } }

func TestAnAppThatListensElsewhereIsNamedLongBeforeTheWaitIsOver(t *testing.T) {
	address := closed(t)
	port := netip.MustParseAddrPort(address.String()).Port()
	for name, each := range map[string]struct {
		listens []string
		named   string
	}{
		"loopback":                {[]string{"127.0.0.1"}, "127.0.0.1:%d only"},
		"another of loopback":     {[]string{"127.0.0.2"}, "127.0.0.2:%d only"},
		"loopback of IPv6":        {[]string{"::1"}, "[::1]:%d only"},
		"both":                    {[]string{"127.0.0.2", "::1"}, "127.0.0.2:%d and [::1]:%[1]d only"},
		"IPv6 alone":              {[]string{"::"}, "[::]:%d only"},
		"an address of IPv4 in 6": {[]string{"::ffff:127.0.0.3"}, "127.0.0.3:%d only"},
		"another network":         {[]string{"172.17.0.1"}, "172.17.0.1:%d only"},
		"many":                    {[]string{"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"}, "127.0.0.4:%d only"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := address
			if each.listens[0] == "127.0.0.1" { // the machine's address is not loopback
				app = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9), Port: int(port)}
			}
			w := newWorld(t, app)
			w.cell.OnLook(func(uint64) []string { return each.listens })
			begun := time.Now()
			answer := w.exchange(request("GET /"))
			expectRefusal(t, answer, 502, "app_listens_elsewhere")
			if took := time.Since(begun); took < settledAfter || took > DefaultTimes.Start/2 {
				t.Fatal(took)
			}
			if named := fmt.Sprintf(each.named, port); !strings.Contains(answer, named) || !strings.Contains(answer, "--host 0.0.0.0") {
				t.Fatalf("%q does not name %q", answer, named)
			}
			if !strings.Contains(answer, `"reason":"app_listens_elsewhere"`) {
				t.Fatalf("%q is nothing for a program", answer)
			}
			page := w.exchange(request("GET /", "Accept: text/html"))
			if !strings.Contains(page, "text/html") || !strings.Contains(page, "--host 0.0.0.0") {
				t.Fatalf("%q is no page", page)
			}
			expectRefusal(t, w.exchange(request("GET /", upgrade)), 502, "app_listens_elsewhere")
		})
	}
}

func TestAVisitorWaitsWhereNothingSaysThatTheAppListensElsewhere(t *testing.T) {
	for name, listens := range map[string][]string{
		"nothing listens":            {},
		"the machine cannot say":     nil,
		"it listens everywhere":      {"0.0.0.0", "127.0.0.2"},
		"it listens on the machine":  {"127.0.0.1"},
		"what it says is no address": {"127.0.0.2", "<script>"},
		"an address with a zone":     {"fe80::1%eth0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, closed(t), lasting(2*time.Second))
			w.cell.OnLook(func(uint64) []string { return listens })
			expectRefusal(t, w.exchange(request("GET /")), 504, "app_not_listening")
		})
	}
}

func TestAnAppThatListensOnLoopbackFirstIsReached(t *testing.T) {
	address := closed(t)
	w := newWorld(t, address)
	var once sync.Once
	w.cell.OnLook(func(uint64) []string {
		once.Do(func() {
			go func() {
				time.Sleep(settledAfter / 2)
				listener, err := net.Listen("tcp", address.String())
				if err != nil {
					return
				}
				defer listener.Close()
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_ = readHeadOf(bufio.NewReader(conn))
				_, _ = io.WriteString(conn, ok)
				conn.Close()
			}()
		})
		return []string{"127.0.0.2"}
	})
	if answer := w.exchange(request("GET /")); status(answer) != "200 OK" {
		t.Fatalf("%q", answer)
	}
}

func TestAnAppThatIsElsewhereForAMomentNowAndThenIsWaitedFor(t *testing.T) {
	w := newWorld(t, closed(t), lasting(3*time.Second))
	var looks atomic.Int64
	w.cell.OnLook(func(uint64) []string {
		if looks.Add(1)%2 == 1 {
			return []string{"127.0.0.2"}
		}
		return []string{}
	})
	expectRefusal(t, w.exchange(request("GET /")), 504, "app_not_listening")
}

func TestAHundredVisitorsOfAPortShareTheirLooks(t *testing.T) {
	w := newWorld(t, closed(t), lasting(2*time.Second))
	var looks atomic.Int64
	w.cell.OnLook(func(uint64) []string {
		looks.Add(1)
		return []string{}
	})
	var visitors sync.WaitGroup
	for range 100 {
		visitors.Go(func() { w.exchange(request("GET /")) })
	}
	visitors.Wait()
	if many := looks.Load(); many == 0 || many > 60 { // at most one per 100 ms, while each visitor looks four times a second
		t.Fatal(many)
	}
}
