package secretproxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func seen(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s|%s|%s|%s|%s", r.Method, r.URL.RequestURI(), r.Header.Get("Authorization"), r.Header.Get("X-Key"), r.Proto, body)
}

func user(name string) *string { return &name }

func TestAValueStandsForItsPlaceholderAndAtTheNamedPlace(t *testing.T) {
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
				w := open(t, http.HandlerFunc(seen))
				placed := w.at()
				if c.place != nil {
					c.place(&placed)
				}
				w.bind(placed)
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
	t.Parallel()
	w := open(t, http.HandlerFunc(seen))
	server := must(net.Listen("tcp4", "127.0.0.1:0"))
	defer server.Close()
	go func() {
		conn := must(server.Accept())
		_, _ = conn.Write([]byte("first\n")) // as mail servers do
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
	t.Parallel()
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
		echoes(w)
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
