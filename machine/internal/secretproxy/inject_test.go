package secretproxy

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestAValueIsNotLookedInto(t *testing.T) {
	w := open(t, http.HandlerFunc(seen))
	const first, second = "berth-secret-1111111111", "berth-secret-2222222222"
	chained := strings.Repeat(second, 100)
	w.set(func() {
		w.secrets = []secret{
			{Name: "A", Placeholder: first, Value: chained, Hosts: []host{w.at()}},
			{Name: "B", Placeholder: second, Value: "value-of-b", Hosts: []host{w.at()}},
		}
	})
	request := must(http.NewRequest("GET", w.url("/?a="+first+second), nil))
	request.Header.Set("X-Key", second+first)
	request.SetBasicAuth(first, second)
	basic := base64.StdEncoding.EncodeToString([]byte(chained + ":value-of-b"))
	want := fmt.Sprintf("GET /?a=%svalue-of-b|Basic %s|value-of-b%s|HTTP/1.1|", chained, basic, chained)
	if got := bodyOf(t, must(w.client(1).Do(request))); got != want {
		t.Fatalf("the server was sent\n%s\nand not\n%s", got, want)
	}
}

func TestARequestThatWouldBeTooLargeWithItsValuesIsRefusedBeforeItIsMade(t *testing.T) {
	arrived := false
	w := open(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived = true }))
	long := strings.Repeat("v", 64<<10)
	w.set(func() { w.secrets[0].Value = long })
	often := strings.Repeat(placeholder, 1000)
	for name, change := range map[string]func(*http.Request){
		"header": func(r *http.Request) { r.Header.Set("X-Key", often) },
		"basic":  func(r *http.Request) { r.SetBasicAuth("u", often) },
		"query":  func(r *http.Request) { r.URL.RawQuery = "a=" + often },
	} {
		request := must(http.NewRequest("GET", w.url("/"), nil))
		change(request)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		response, err := w.client(1).Do(request)
		runtime.ReadMemStats(&after)
		if status, reason := refusalOf(t, response, err); status != http.StatusBadGateway || reason != refusedValue || arrived {
			t.Errorf("%s: %d %s, arrived: %v", name, status, reason, arrived)
		}
		if made := after.TotalAlloc - before.TotalAlloc; made > 8<<20 {
			t.Errorf("%s: %d MiB were made", name, made>>20)
		}
	}
	once := must(http.NewRequest("GET", w.url("/"), nil))
	once.Header.Set("X-Key", placeholder)
	bodyOf(t, must(w.client(1).Do(once)))
	if !arrived {
		t.Fatal("a value of 64 KiB is not sent")
	}
}

// The secret may change while a connection waits for a slow server to accept.
func TestAValueThatChangesBeforeItsConnectionIsMadeIsNotSent(t *testing.T) {
	arrived := make(chan string, 1)
	w := open(t, http.HandlerFunc(seen))
	slow := w.serve(boundHost, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- r.Header.Get("X-Key") }))
	listener := must(net.Listen("tcp4", "127.0.0.1:0"))
	defer listener.Close()
	w.set(func() {
		w.to = netip.MustParseAddrPort(listener.Addr().String())
		w.secrets[0].Hosts[0].Ports = []int{int(w.to.Port())}
		w.secrets[0].Hosts[0].Header = "X-Key"
	})
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		w.set(func() { w.secrets[0].Value = "rotated" })
		time.Sleep(answerKept) // the last answer is used until then
		server := must(net.Dial("tcp4", slow.String()))
		defer server.Close()
		go func() { _, _ = io.Copy(server, conn) }()
		_, _ = io.Copy(conn, server)
	}()
	response, err := w.client(1).Get(w.url("/"))
	if status, reason := refusalOf(t, response, err); status != http.StatusServiceUnavailable || reason != refusedUnknown || len(arrived) > 0 {
		t.Fatal(status, reason, sent(arrived))
	}
}

func TestCallersThatWaitForTheCellTogetherAreToldTogether(t *testing.T) {
	w := open(t, http.HandlerFunc(seen))
	w.cell.Close()
	began := time.Now()
	var waiting sync.WaitGroup
	for range 10 {
		waiting.Go(func() {
			if _, err := w.proxy.answers.of(t.Context(), workspace); err == nil {
				t.Error("there is an answer without a cell")
			}
		})
	}
	waiting.Wait()
	if took := time.Since(began); took > 5*answerTimeout {
		t.Fatalf("it took %s: one waits for the other", took)
	}
}

func TestAnswersThatAreRememberedAreBoundedAndTheLargestGoFirst(t *testing.T) {
	a := newAnswers()
	small, large := wire.SecretsOf{WorkspaceID: "small"}, wire.SecretsOf{WorkspaceID: "large"}
	for of, size := range map[wire.SecretsOf]int{small: 1000, large: answersTogether} {
		k := a.remember(of)
		k.answer, k.hosts = &answer{Secrets: []secret{{Value: strings.Repeat("v", size)}}}, []host{{Host: boundHost}}
		a.count(k)
	}
	a.bound()
	if a.known[small].answer == nil || a.known[large].answer != nil || a.known[large].hosts == nil || a.bytes > answersTogether {
		t.Fatalf("%d bytes are kept", a.bytes)
	}
	a.forget(small)
	a.forget(large)
	if a.bytes != 0 {
		t.Fatalf("%d bytes are kept of nothing", a.bytes)
	}
}
