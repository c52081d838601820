package secretproxy

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func reads(r *http.Request) string {
	fields := []string{}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if name != "Authorization" && name != "User-Agent" && name != "Accept-Encoding" {
			fields = append(fields, name)
		}
	}
	return fmt.Sprintf("%s %s at %s as %q with %v", r.Method, r.RequestURI, r.Host, r.Header.Get("Authorization"), fields)
}

const (
	anyPort = "PORT"                                       // replaced by the server's port
	noHost  = "GET / at api.example.com as \"%s\" with []" // a request that arrives without its other fields
)

// A server must see no other host in a request with the value. `arrives` "" is a refusal.
func TestAValueGoesInNoRequestThatNamesAnotherHost(t *testing.T) {
	arrived := make(chan string, 1)
	w := open(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- reads(r) }))
	port := fmt.Sprint(w.to.Port())
	plain := fmt.Sprintf(noHost, "Bearer "+value)
	for _, c := range []struct{ target, host, fields, arrives string }{
		{"GET /a/%2F?b=%20;c", "api.example.com", "", "GET /a/%2F?b=%20;c at api.example.com as \"Bearer sk-canary-value\" with []"},
		{"GET //other.example/a", "api.example.com", "", "GET //other.example/a at api.example.com as \"Bearer sk-canary-value\" with []"},
		{"OPTIONS *", "api.example.com", "", "OPTIONS * at api.example.com as \"Bearer sk-canary-value\" with []"},
		{"GET *", "api.example.com", "", ""},
		{"GET https://api.example.com/", "api.example.com", "", ""},
		{"GET https://other.example/", "api.example.com", "", ""},
		{"GET https://api.example.com@other.example/", "api.example.com", "", ""},
		{"GET x:https://other.example/", "api.example.com", "", ""},
		{"GET https:/", "api.example.com", "", ""},
		{"GET other.example:443", "api.example.com", "", ""},
		{"GET ?a", "api.example.com", "", ""},
		{"CONNECT other.example:443", "api.example.com", "", ""},
		{"CONNECT /", "api.example.com", "", ""},
		{"PRI *", "api.example.com", "", ""},

		{"GET /", "API.Example.com.", "", plain},
		{"GET /", "api.example.com:", "", plain},
		{"GET /", "api.example.com:" + anyPort, "", strings.Replace(plain, boundHost, boundHost+":"+anyPort, 1)},
		{"GET /", "api.example.com:1", "", ""},
		{"GET /", "api.example.com:0" + anyPort, "", ""},
		{"GET /", "user@api.example.com", "", ""},
		{"GET /", "api.example.com/other.example", "", ""},
		{"GET /", "other.example", "", ""},
		{"GET /", "", "", ""},
		{"GET /", "api.example.com\r\nHost: other.example", "", ""},
		{"GET /", "api.example.com", " Host: other.example", fmt.Sprintf(noHost, "Bearer "+value+" Host: other.example")}, // one field of two lines
		{"GET /", "api.example.com", "Host : other.example", ""},

		{"GET /", "api.example.com", "Forwarded: host=other.example", plain},
		{"GET /", "api.example.com", "X-Forwarded-Host: other.example", plain},
		{"GET /", "api.example.com", "X_Forwarded_Host: other.example", plain},
		{"GET /", "api.example.com", "X-Forwarded-Server: other.example\r\nX-Original-Host: a\r\nX-HTTP-Host-Override: b\r\nX-Rewrite-URL: https://c/", plain},
		{"GET /", "api.example.com", "X-Forwarded-For: 192.0.2.1", strings.Replace(plain, "[]", "[X-Forwarded-For]", 1)},
		{"GET /", "api.example.com", "Connection: Authorization, X-Own\r\nX-Own: 1\r\nKeep-Alive: 1\r\nProxy-Authorization: a\r\nTE: gzip", fmt.Sprintf(noHost, "")},
		{"GET /", "api.example.com", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA",
			strings.Replace(plain, "[]", "[Connection Upgrade]", 1)},
	} {
		head := fmt.Sprintf("%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n", c.target, c.host, placeholder)
		if c.fields != "" {
			head += c.fields + "\r\n"
		}
		head = strings.ReplaceAll(head, anyPort, port)
		conn := w.tlsTo(boundHost)
		if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%q: %v", head, err)
		}
		conn.Close()
		want := strings.ReplaceAll(c.arrives, anyPort, port)
		if got := sent(arrived); got != want || (want == "") != (response.StatusCode >= 400) {
			t.Errorf("%q: %s, and the server reads\n%s\nand not\n%s", head, response.Status, got, want)
		}
	}
}

func TestAValueGoesInNoRequestOfHTTP2ThatNamesAnotherHost(t *testing.T) {
	arrived := make(chan string, 1)
	w := open(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- reads(r) }))
	plain := fmt.Sprintf(noHost, "Bearer "+value)
	for _, c := range []struct {
		fields  []string
		arrives string
	}{
		{[]string{":path", "/", ":authority", "api.example.com"}, plain},
		{[]string{":path", "/", "host", "api.example.com"}, plain},
		{[]string{":path", "/", ":authority", "api.example.com", "host", "api.example.com"}, plain},
		{[]string{":path", "/", ":authority", "api.example.com", "host", "other.example"}, ""},
		{[]string{":path", "/", ":authority", "other.example", "host", "api.example.com"}, ""},
		{[]string{":path", "x:https://other.example/", ":authority", "api.example.com"}, ""},
		{[]string{":path", "https://other.example/", ":authority", "api.example.com"}, ""},
		{[]string{":path", "*", ":authority", "api.example.com"}, ""},
		{[]string{":path", "other.example", ":authority", "api.example.com"}, ""},
		{[]string{":path", "/", ":authority", "api.example.com:1"}, ""},
		{[]string{":path", "/", ":authority", "api.example.com", ":path", "/other"}, ""},
		{[]string{":path", "/", ":authority", "api.example.com", "connection", "authorization"}, ""},
		{[]string{":path", "/", ":authority", "api.example.com", "x-forwarded-host", "other.example"}, plain},
	} {
		askHTTP2(t, w, append([]string{":method", "GET", ":scheme", "https"}, append(c.fields, "authorization", "Bearer "+placeholder)...)...)
		if got := sent(arrived); got != c.arrives {
			t.Errorf("%q: the server reads\n%s\nand not\n%s", c.fields, got, c.arrives)
		}
	}
}

func sent(arrived <-chan string) string {
	select {
	case got := <-arrived:
		return got
	default:
		return ""
	}
}

func askHTTP2(t *testing.T, w *world, fields ...string) {
	t.Helper()
	const headers, reset, goAway, endStream, endHeaders = 1, 3, 7, 1, 4
	plain := w.tlsTo(boundHost)
	conn := tls.Client(plain.NetConn(), &tls.Config{ServerName: boundHost, RootCAs: poolOf(w.workspace), NextProtos: []string{"h2"}})
	defer conn.Close()
	block := []byte{}
	for i := 0; i < len(fields); i += 2 { // literals without an index: shorter than 127 bytes each
		block = append(block, 0)
		for _, text := range fields[i : i+2] {
			block = append(append(block, byte(len(text))), text...)
		}
	}
	frame := func(kind, flags byte, stream uint32, payload []byte) []byte {
		head := append(binary.BigEndian.AppendUint32(nil, uint32(len(payload)))[1:], kind, flags)
		return append(binary.BigEndian.AppendUint32(head, stream), payload...)
	}
	text := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(4, 0, 0, nil)...)
	if _, err := conn.Write(append(text, frame(headers, endStream|endHeaders, 1, block)...)); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(reader, head); err != nil {
			t.Fatalf("%q: %v", fields, err)
		}
		length := int(binary.BigEndian.Uint32(append([]byte{0}, head[:3]...)))
		if _, err := reader.Discard(length); err != nil {
			t.Fatal(err)
		}
		if kind := head[3]; kind == headers || kind == reset || kind == goAway {
			return
		}
	}
}
