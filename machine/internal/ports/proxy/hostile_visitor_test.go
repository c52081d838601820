package proxy

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func TestARequestThatCanBeMistakenIsRefusedAndReachesNoApp(t *testing.T) {
	app := answering(t, ok)
	w := newWorld(t, app.Addr())
	second := "GET /smuggled HTTP/1.1\r\nHost: " + host + "\r\nX-Service-Token: " + token + "\r\n\r\n"
	head := "POST / HTTP/1.1\r\nHost: " + host + "\r\nX-Service-Token: " + token + "\r\n"
	for name, bytes := range map[string]string{
		"length and chunks":             head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"chunks and length":             head + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"two lengths":                   head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"the same length twice":         head + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
		"a list of lengths":             head + "Content-Length: 5, 5\r\n\r\nhello",
		"a length with a sign":          head + "Content-Length: +5\r\n\r\nhello",
		"a negative length":             head + "Content-Length: -5\r\n\r\nhello",
		"a hexadecimal length":          head + "Content-Length: 0x5\r\n\r\nhello",
		"an empty length":               head + "Content-Length:\r\n\r\n",
		"a length beyond all":           head + "Content-Length: 99999999999999999999\r\n\r\n",
		"a space before the colon":      head + "Content-Length : 5\r\n\r\nhello",
		"a line that goes on":           head + "X-A: b\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"a first line that goes on":     "POST / HTTP/1.1\r\n Host: " + host + "\r\n\r\n",
		"a coding of nobody":            head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"chunked and identity":          head + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		"identity and chunked":          head + "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
		"a vertical tab":                head + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
		"two codings":                   head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"a bare line feed":              strings.Replace(head, "\r\nX-", "\nX-", 1) + "\r\n",
		"a bare line feed at the end":   head + "\n",
		"a bare carriage return":        head + "X-A: b\rContent-Length: 5\r\n\r\nhello",
		"a zero":                        head + "X-A: b\x00\r\n\r\n",
		"a chunk size with a line feed": head + "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
		"a chunk size with a sign":      head + "Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
		"a chunk size with 0x":          head + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
		"a chunk size beyond all":       head + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello\r\n0\r\n\r\n",
		"a chunk that is longer":        head + "Transfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n",
		"an old version with chunks":    strings.Replace(head, "1.1", "1.0", 1) + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"no colon":                      head + "nothing\r\n\r\n",
		"no name":                       head + ": x\r\n\r\n",
		"a version of nobody":           strings.Replace(head, "1.1", "1.2", 1) + "\r\n",
		"version 2":                     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"no version":                    "GET /\r\n\r\n",
		"two spaces":                    strings.Replace(head, "/ ", "/  ", 1) + "\r\n",
		"no target":                     strings.Replace(head, " / ", "  ", 1) + "\r\n",
		"an asterisk":                   strings.Replace(head, " / ", " * ", 1) + "\r\n",
		"a fragment":                    strings.Replace(head, " / ", " /#x ", 1) + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			answer := w.exchange(bytes + second)
			expectRefusal(t, answer, 400, "bad_request")
			if strings.Count(answer, "HTTP/1.1 ") != 1 || header(answer, "connection") != "close" || header(answer, "cache-control") != "no-store" {
				t.Fatalf("%q", answer)
			}
		})
	}
	if strings.Contains(app.got(), "smuggled") || strings.Contains(app.got(), "identity") {
		t.Fatalf("the app got %q", app.got())
	}
}

func TestOnlyTheOneNameOfAPortIsServed(t *testing.T) {
	app := answering(t, ok)
	w := newWorld(t, app.Addr())
	rest := "\r\nX-Service-Token: " + token + "\r\nConnection: close\r\n\r\n"
	for name, each := range map[string]struct {
		bytes  string
		code   int
		reason string
	}{
		"two hosts":              {"GET / HTTP/1.1\r\nHost: " + host + "\r\nHost: " + host + rest, 400, "bad_request"},
		"no host":                {"GET / HTTP/1.1\r\nX-A: b" + rest, 400, "bad_request"},
		"the absolute form":      {"GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + rest, 400, "bad_request"},
		"a dot at the end":       {"GET / HTTP/1.1\r\nHost: " + host + "." + rest, 404, "host_unknown"},
		"a port beyond all":      {"GET / HTTP/1.1\r\nHost: " + host + ":99999" + rest, 404, "host_unknown"},
		"a user":                 {"GET / HTTP/1.1\r\nHost: a@" + host + rest, 404, "host_unknown"},
		"a zero first":           {"GET / HTTP/1.1\r\nHost: 0" + host + rest, 404, "host_unknown"},
		"a sign":                 {"GET / HTTP/1.1\r\nHost: +" + host + rest, 404, "host_unknown"},
		"an exponent":            {"GET / HTTP/1.1\r\nHost: 3e3-" + hostID + "." + portHost + rest, 404, "host_unknown"},
		"a fraction":             {"GET / HTTP/1.1\r\nHost: 3000.0-" + hostID + "." + portHost + rest, 404, "host_unknown"},
		"port 0":                 {"GET / HTTP/1.1\r\nHost: 0-" + hostID + "." + portHost + rest, 404, "host_unknown"},
		"port 65536":             {"GET / HTTP/1.1\r\nHost: 65536-" + hostID + "." + portHost + rest, 404, "host_unknown"},
		"wide digits":            {"GET / HTTP/1.1\r\nHost: ３０００-" + hostID + "." + portHost + rest, 404, "host_unknown"},
		"two hyphens":            {"GET / HTTP/1.1\r\nHost: 3000--" + hostID + "." + portHost + rest, 404, "host_unknown"},
		"capitals":               {"GET / HTTP/1.1\r\nHost: 3000-" + strings.ToUpper(hostID) + "." + portHost + rest, 404, "host_unknown"},
		"bits that are not zero": {"GET / HTTP/1.1\r\nHost: 3000-" + hostID[:25] + "n." + portHost + rest, 404, "host_unknown"},
		"punycode":               {"GET / HTTP/1.1\r\nHost: xn--3000-" + hostID + "." + portHost + rest, 404, "host_unknown"},
		"another domain":         {"GET / HTTP/1.1\r\nHost: 3000-" + hostID + ".ports.evil" + rest, 404, "host_unknown"},
		"a domain that ends so":  {"GET / HTTP/1.1\r\nHost: 3000-" + hostID + ".evil" + portHost + rest, 404, "host_unknown"},
		"the domain itself":      {"GET / HTTP/1.1\r\nHost: " + portHost + rest, 404, "host_unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			expectRefusal(t, w.exchange(each.bytes), each.code, each.reason)
		})
	}
	if app.got() != "" || w.cell.Asked() != 0 {
		t.Fatalf("the app got %q, the cell was asked %d times", app.got(), w.cell.Asked())
	}
	if answer := w.exchange("GET / HTTP/1.1\r\nHost: " + host + ":8443" + rest); status(answer) != "200 OK" {
		t.Fatalf("%q", answer)
	}
}

func TestNoTunnelIsOpened(t *testing.T) {
	app := answering(t, ok)
	w := newWorld(t, app.Addr())
	for bytes, expected := range map[string]struct {
		code   int
		reason string
	}{
		request("CONNECT 169.254.169.254:80"):                        {405, "method_not_allowed"},
		request("CONNECT /"):                                         {405, "method_not_allowed"},
		request("TRACE /"):                                           {405, "method_not_allowed"},
		request("GET /", "Connection: Upgrade", "Upgrade: h2c"):      {400, "upgrade_refused"},
		request("GET /", "Connection: upgrade", "Upgrade: a, H2C"):   {400, "upgrade_refused"},
		request("GET /", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"): {400, "upgrade_refused"},
	} {
		expectRefusal(t, w.exchange(bytes), expected.code, expected.reason)
	}
	if app.got() != "" {
		t.Fatalf("the app got %q", app.got())
	}
}

func TestAnUpgradeThatConnectionDoesNotNameIsNone(t *testing.T) {
	app := answering(t, ok)
	w := newWorld(t, app.Addr())
	if answer := w.exchange(request("GET /", "Upgrade: h2c")); status(answer) != "200 OK" || strings.Contains(app.got(), "h2c") {
		t.Fatalf("%q, the app got %q", answer, app.got())
	}
}

func TestAHeadThatIsTooLargeIsRefused(t *testing.T) {
	w := newWorld(t, answering(t, ok).Addr())
	for name, fields := range map[string][]string{
		"64 KiB":       {"X-A: " + strings.Repeat("a", 64<<10)},
		"2,000 fields": strings.Split(strings.Repeat("a: b\n", 1999)+"a: b", "\n"),
	} {
		t.Run(name, func(t *testing.T) {
			expectRefusal(t, w.exchange(request("GET /", fields...)), 431, "header_too_large")
		})
	}
	if answer := w.exchange(request("GET /", "__proto__: x", "constructor: y")); status(answer) != "200 OK" {
		t.Fatalf("%q", answer)
	}
}

func TestASlowVisitorIsToldAndLetGo(t *testing.T) {
	t.Parallel()
	app := newRawApp(t, func(_ net.Conn, reader *bufio.Reader) { _, _ = io.Copy(io.Discard, reader) })
	w := newWorld(t, app.Addr(), func(o *Options) { o.Times.Head, o.Times.Body = 300*time.Millisecond, 300*time.Millisecond })
	for name, bytes := range map[string]string{
		"in the head": "GET / HTTP/1.1\r\nHost: ",
		"in the body": request("POST /", "Content-Length: 10") + "12345",
		"in a chunk":  request("POST /", "Transfer-Encoding: chunked") + "a\r\n12345",
	} {
		t.Run(name, func(t *testing.T) {
			expectRefusal(t, w.exchange(bytes), 408, "request_timeout")
		})
	}
}
