package secretproxy

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
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

// seen is what a server is sent, as text.
func seen(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s|%s|%s|%s|%s", r.Method, r.URL.RequestURI(), r.Header.Get("Authorization"), r.Header.Get("X-Key"), r.Proto, body)
}

func user(name string) *string { return &name }

func TestAValueStandsForItsPlaceholderAndAtTheNamedPlace(t *testing.T) {
	w := open(t, http.HandlerFunc(seen))
	at := w.at()
	const basicOfValue = "Basic dTpzay1jYW5hcnktdmFsdWU=" // u:sk-canary-value
	for name, c := range map[string]struct {
		place                      func(h *host)
		path, authorization, key   string
		wantPath, wantAuth, wantOf string
	}{
		"placeholder in headers": {nil, "/a", "Bearer " + placeholder, placeholder, "/a", "Bearer " + value, value},
		"placeholder in basic":   {nil, "/a", "Basic dTpiZXJ0aC1zZWNyZXQtMDEyMzQ1Njc4OQ==", "", "/a", basicOfValue, ""},
		"placeholder in query":   {nil, "/a?x=%20&key=" + placeholder + "&b", "", "", "/a?x=%20&key=" + value + "&b", "", ""},
		"header":                 {func(h *host) { h.Header = "X-Key" }, "/a", "", "theirs", "/a", "", value},
		"bearer":                 {func(h *host) { h.Bearer = true }, "/a", "Bearer theirs", "", "/a", "Bearer " + value, ""},
		"basic":                  {func(h *host) { h.BasicUser = user("u") }, "/a", "", "", "/a", basicOfValue, ""},
		"query":                  {func(h *host) { h.Query = "key" }, "/a?key=1&x=%2F", "", "", "/a?x=%2F&key=" + value, "", ""},
		"not in the path":        {nil, "/" + placeholder, "", "", "/" + placeholder, "", ""},
	} {
		for protocol := 1; protocol <= 2; protocol++ {
			t.Run(fmt.Sprintf("%s over HTTP/%d", name, protocol), func(t *testing.T) {
				placed := at
				if c.place != nil {
					c.place(&placed)
				}
				w.bind(placed)
				time.Sleep(answerKept) // what was said before is used until then
				request := must(http.NewRequest("POST", w.url(c.path), strings.NewReader("body "+placeholder)))
				request.Header.Set("Authorization", c.authorization)
				request.Header.Set("X-Key", c.key)
				response, err := w.client(protocol).Do(request)
				if err != nil {
					t.Fatal(err)
				}
				want := fmt.Sprintf("POST %s|%s|%s|HTTP/%d.%d|body %s", c.wantPath, c.wantAuth, c.wantOf, protocol, 2-protocol, placeholder)
				if got := bodyOf(t, response); got != want {
					t.Fatalf("the server was sent\n%s\nand not\n%s", got, want)
				}
			})
		}
	}
}

func TestAHostWithoutSecretsIsPassedOnAsItIs(t *testing.T) {
	w := open(t, http.HandlerFunc(seen))
	other := w.serve("other.example.com", http.HandlerFunc(seen))
	w.set(func() { w.to = other })
	request := must(http.NewRequest("GET", "https://other.example.com/", nil))
	request.Header.Set("X-Key", placeholder)
	response, err := w.client(1).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if issuer := response.TLS.PeerCertificates[0].Issuer.CommonName; issuer != "servers" {
		t.Fatalf("its TLS was ended by %s", issuer)
	}
	if got := bodyOf(t, response); got != "GET /||"+placeholder+"|HTTP/1.1|" {
		t.Fatalf("the server was sent %s", got)
	}
}

func TestWhatIsNotTLSPassesUntouchedInBothDirections(t *testing.T) {
	w := open(t, http.HandlerFunc(seen))
	server := must(net.Listen("tcp4", "127.0.0.1:0"))
	defer server.Close()
	go func() {
		conn := must(server.Accept())
		_, _ = conn.Write([]byte("first\n")) // as servers of mail do
		_, _ = io.Copy(conn, conn)
		conn.Close()
	}()
	w.set(func() { w.to = netip.MustParseAddrPort(server.Addr().String()) })
	conn := must(net.Dial("tcp4", w.address)).(*net.TCPConn)
	defer conn.Close()
	lines := bufio.NewReader(conn)
	if got := must(lines.ReadString('\n')); got != "first\n" {
		t.Fatal(got)
	}
	fmt.Fprintln(conn, placeholder)
	_ = conn.CloseWrite()
	if got := string(must(io.ReadAll(lines))); got != placeholder+"\n" {
		t.Fatal(got)
	}
}

func TestAValueGoesToNoOtherHostOfTheSameServer(t *testing.T) {
	arrived := false
	w := open(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived = true }))
	for protocol := 1; protocol <= 2; protocol++ {
		request := must(http.NewRequest("GET", w.url("/"), nil))
		request.Host = "attacker.example.com"
		response, err := w.client(protocol).Do(request)
		if status, reason := refusalOf(t, response, err); status != http.StatusMisdirectedRequest || reason != refusedHost {
			t.Fatalf("HTTP/%d: %d %s", protocol, status, reason)
		}
	}
	if arrived {
		t.Fatal("a request arrived")
	}
}

func TestAServerThatNobodyCertifiedGetsNothing(t *testing.T) {
	arrived := false
	w := open(t, http.HandlerFunc(seen))
	w.servers = newAuthority(t, "nobody")
	impostor := w.serve(boundHost, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived = true }))
	w.set(func() { w.to = impostor; w.secrets[0].Hosts[0].Ports = []int{int(impostor.Port())} })
	response, err := w.client(1).Get(w.url("/"))
	if status, reason := refusalOf(t, response, err); status != http.StatusBadGateway || reason != refusedUntrusted || arrived {
		t.Fatal(status, reason, arrived)
	}
}

func TestARotationAndAnUnbindingCountWithinASecondOnAConnectionThatIsOpen(t *testing.T) {
	w := open(t, http.HandlerFunc(seen))
	at := w.at()
	at.Header = "X-Key"
	w.bind(at)
	client := w.client(1)
	get := func() string {
		response, err := client.Get(w.url("/"))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(response.StatusCode, response.Header.Get(RefusedHeader), " ", bodyOf(t, response))
	}
	if got := get(); !strings.Contains(got, value) {
		t.Fatal(got)
	}
	began := time.Now()
	w.set(func() { w.secrets[0].Value = "rotated" })
	eventually(t, "the value before is not used any more", func() bool { return strings.Contains(get(), "|rotated|") })
	if took := time.Since(began); took > time.Second {
		t.Fatalf("it took %s", took)
	}
	w.set(func() { w.secrets = nil })
	eventually(t, "no value is put in any more", func() bool { return strings.HasPrefix(get(), "403"+refusedUnbound) })
}

func TestWithoutTheCellNoRequestOfABoundHostIsSentAndOthersPass(t *testing.T) {
	w := open(t, http.HandlerFunc(seen))
	client := w.client(1)
	bodyOf(t, must(client.Get(w.url("/"))))
	w.cell.Close()
	eventually(t, "a request on an open connection is refused", func() bool {
		status, reason := refusalOf(t, must(client.Get(w.url("/"))), nil)
		return status == http.StatusServiceUnavailable && reason == refusedUnknown
	})
	if err := w.tlsTo(boundHost).Handshake(); err == nil {
		t.Fatal("a new connection to a bound host was answered")
	}
	other := w.serve("other.example.com", http.HandlerFunc(seen))
	w.set(func() { w.to = other })
	if err := w.tlsTo("other.example.com").Handshake(); err != nil {
		t.Fatal(err)
	}
}

func TestAWebSocketBeginsWithTheValueAndGoesBothWays(t *testing.T) {
	w := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+value || r.Header.Get("Upgrade") != "websocket" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		_, _ = io.Copy(conn, buffered)
	}))
	conn := w.tlsTo(boundHost)
	fmt.Fprintf(conn, "GET /socket HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nAuthorization: Bearer %s\r\n\r\n", boundHost, placeholder)
	reader := bufio.NewReader(conn)
	response := must(http.ReadResponse(reader, nil))
	if response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(response.Status)
	}
	fmt.Fprint(conn, "frame of the machine\n")
	if got := must(reader.ReadString('\n')); got != "frame of the machine\n" {
		t.Fatal(got)
	}
}

func TestAnAnswerIsToldWhileTheRequestIsStillBeingSent(t *testing.T) {
	w := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines := bufio.NewReader(r.Body)
		for line, err := lines.ReadString('\n'); err == nil; line, err = lines.ReadString('\n') {
			fmt.Fprint(w, line)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	body, send := io.Pipe()
	go func() { fmt.Fprintln(send, "one") }()
	response, err := w.client(2).Post(w.url("/"), "text/plain", body)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	if got := must(lines.ReadString('\n')); got != "one\n" {
		t.Fatal(got)
	}
	fmt.Fprintln(send, "two")
	if got := must(lines.ReadString('\n')); got != "two\n" {
		t.Fatal(got)
	}
	send.Close()
}

func TestAnEventOfAStreamIsToldAtOnce(t *testing.T) {
	more := make(chan struct{})
	w := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "data: one\n")
		_ = http.NewResponseController(w).Flush()
		<-more
		fmt.Fprint(w, "data: two\n")
	}))
	response := must(w.client(1).Get(w.url("/events")))
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	if got := must(lines.ReadString('\n')); got != "data: one\n" {
		t.Fatal(got)
	}
	close(more)
	if got := must(lines.ReadString('\n')); got != "data: two\n" {
		t.Fatal(got)
	}
}

func TestARequestThatEndsInTwoWaysIsRefusedAndNothingOfItArrives(t *testing.T) {
	arrived := make(chan string, 8)
	w := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { arrived <- r.URL.Path }))
	for _, head := range []string{
		"Content-Length: 5\r\nContent-Length: 6\r\n",
		"Transfer-Encoding: gzip, chunked\r\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
		"Content-Length: +5\r\n",
		"X y: 1\r\n",
	} {
		conn := w.tlsTo(boundHost)
		fmt.Fprintf(conn, "POST /first HTTP/1.1\r\nHost: %s\r\n%s\r\n0\r\n\r\nGET /second HTTP/1.1\r\nHost: %s\r\n\r\n", boundHost, head, boundHost)
		response := must(http.ReadResponse(bufio.NewReader(conn), nil))
		if response.StatusCode != http.StatusBadRequest && response.StatusCode != http.StatusNotImplemented {
			t.Fatalf("%q: %s", head, response.Status)
		}
	}
	if len(arrived) > 0 {
		t.Fatalf("%s arrived", <-arrived)
	}
}

func TestWhatAMachineHadOpenIsCutWhenHostdSaysSo(t *testing.T) {
	w := open(t, http.HandlerFunc(seen))
	conn := w.tlsTo(boundHost)
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	go func() {
		text := must(json.Marshal(FromHost{ID: 7, Machines: map[netip.Addr]*wire.SecretsOf{machineAddress: nil}}))
		_, _ = w.host.Write(append(text, '\n'))
	}()
	var acked ToHost
	if err := json.NewDecoder(w.host).Decode(&acked); err != nil || acked.Ack != 7 {
		t.Fatal(acked, err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Fatal("it goes on")
	}
	if err := w.tlsTo(boundHost).Handshake(); err == nil {
		t.Fatal("a machine without secrets is served")
	}
}

func TestAValueThatNoHeaderCarriesIsNotSent(t *testing.T) {
	w := open(t, http.HandlerFunc(seen))
	w.set(func() { w.secrets[0].Value = "a\r\nX-Other: b" })
	response, err := w.client(1).Get(w.url("/"))
	if status, reason := refusalOf(t, response, err); status != http.StatusBadGateway || reason != refusedValue {
		t.Fatal(status, reason)
	}
}

func TestAStarStandsForOneLabel(t *testing.T) {
	h := host{Host: "*.example.com", Ports: []int{443}}
	for name, want := range map[string]bool{"a.example.com": true, "example.com": false, "b.a.example.com": false, "a.example.org": false} {
		if h.covers(name, 443) != want || h.covers(name, 80) {
			t.Fatal(name)
		}
	}
}

// Two secrets of one host: the value of one is the placeholder of the other, many times.
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

// A server may take long to answer at all. The value is what it was when the request came, until the connection is made.
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
		time.Sleep(answerKept) // what was said before is used until then
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
				t.Error("somebody answered")
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
