package httpwire

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /a?b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nA: b\r\n\r\n",
		"GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET / HTTP/1.1\nHost: a\n\n",
		"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		ours := bufio.NewReader(bytes.NewReader(sent))
		request, err := ReadRequest(ours)
		if err != nil {
			return
		}
		body, bodyErr := io.ReadAll(NewBody(ours, request.Framing))
		theirs, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(sent)))
		if err != nil {
			if strings.ContainsAny(request.Host+request.Target+request.Method, "\x80%[]:@/\\\"<>^`{|}!$&'()*+,;=?") || !isPlain(request.Host) || !isPlain(request.Target) {
				return // net/http is stricter about hosts and paths
			}
			t.Fatalf("%q is no request for others: %v", sent, err)
		}
		if theirs.Method != request.Method || theirs.RequestURI != request.Target || theirs.Host != request.Host {
			t.Fatalf("%q: %s %s %s, for others %s %s %s", sent, request.Method, request.Target, request.Host, theirs.Method, theirs.RequestURI, theirs.Host)
		}
		if bodyErr == nil {
			if expected, err := io.ReadAll(theirs.Body); err == nil && !bytes.Equal(expected, body) {
				t.Fatalf("%q: the body is %q, for others %q", sent, body, expected)
			}
		}
	})
}

func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] >= 0x7f {
			return false
		}
	}
	return true
}

func FuzzResponse(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.0 200\n\nx",
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: a\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		reader := bufio.NewReader(bytes.NewReader(sent))
		response, err := ReadResponse(reader, "GET")
		if err != nil {
			return
		}
		for _, field := range response.Fields {
			if !isToken(field.Name) || !isFieldValue(field.Value) || strings.ContainsAny(field.Value, "\r\n") {
				t.Fatalf("%q: the field %q", sent, field.Name+field.Value)
			}
		}
		body, _ := io.ReadAll(NewBody(reader, response.Framing))
		if len(body) > len(sent) {
			t.Fatalf("%q: the body is %q", sent, body)
		}
	})
}
