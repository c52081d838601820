package proxy

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestAnAppGetsARequestAsItWasSent(t *testing.T) {
	app := answering(t, ok)
	w := newWorld(t, app.Addr())
	w.exchange("GET //a/../b%2Fc/%00;x?q=%20&q=1&&y HTTP/1.1\r\nx-LOWER: 1\r\nHost: " + host + "\r\nX-Service-Token: " + token +
		"\r\nX-Twice: b\r\nX-Twice: a\r\nX-Empty:\r\nAuthorization: Basic YTpi\r\nX-Utf: \xc3\xa4\r\nConnection: close\r\n\r\n")
	expected := "GET //a/../b%2Fc/%00;x?q=%20&q=1&&y HTTP/1.1\r\nx-LOWER: 1\r\nHost: " + host +
		"\r\nX-Twice: b\r\nX-Twice: a\r\nX-Empty: \r\nAuthorization: Basic YTpi\r\nX-Utf: \xc3\xa4\r\n" +
		"X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: " + host + "\r\n\r\n"
	if app.got() != expected {
		t.Fatalf("the app got %q", app.got())
	}
}

func TestAVisitorGetsAnAnswerAsItWasGiven(t *testing.T) {
	w := newWorld(t, answering(t, "HTTP/1.1 218 This is fine\r\nset-COOKIE: a=1\r\nSet-Cookie: b=2\r\nX-Service-Reason: mine\r\nx_service_reason: mine\r\n"+
		"Set-Cookie: __Host-berth-port=x; Path=/; Secure\r\nKeep-Alive: timeout=5\r\nConnection: X-Hop\r\nX-Hop: 1\r\nContent-Length: 2\r\n\r\nhi").Addr())
	expected := "HTTP/1.1 218 This is fine\r\nset-COOKIE: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
	if answer := w.exchange(request("GET /")); answer != expected {
		t.Fatalf("%q", answer)
	}
}

func TestWhatAVisitorSaysOfItsOriginIsDropped(t *testing.T) {
	app := answering(t, ok)
	w := newWorld(t, app.Addr())
	w.exchange("GET / HTTP/1.1\r\nHost: " + host + "\r\nX-Service-Token: " + token + "\r\nX-Forwarded-For: 1.2.3.4\r\nX_Forwarded_For: 1.2.3.4\r\n" +
		"x-forwarded-host: " + otherHost + "\r\nX-Forwarded-Port: 1\r\nForwarded: for=1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\nContent_Length: 7\r\n" +
		"Connection: close, X-Forwarded-For, X-Forwarded-Host, X-Service-Token, Authorization, X-Mine\r\nX-Mine: 1\r\nx-service-reason: x\r\n\r\n")
	got := app.got()
	if strings.Contains(got, "1.2.3.4") || strings.Contains(got, otherID) || strings.Contains(got, "sfp_") || strings.Contains(got, "Mine") || strings.Contains(got, "_") || strings.Contains(got, "eason") {
		t.Fatalf("the app got %q", got)
	}
	if !strings.Contains(got, "X-Forwarded-For: 127.0.0.1\r\n") || !strings.Contains(got, "X-Forwarded-Host: "+host+"\r\n") {
		t.Fatalf("the app got %q", got)
	}
}

func TestRoutingIsByHostAlone(t *testing.T) {
	app := answering(t, ok)
	w := newWorld(t, app.Addr())
	for _, field := range []string{"X-Forwarded-Host: " + host, "X-Original-URL: https://" + host + "/", "Forwarded: host=" + host} {
		bytes := "GET / HTTP/1.1\r\nHost: " + otherHost + "\r\nX-Service-Token: " + token + "\r\nConnection: close\r\n" + field + "\r\n\r\n"
		expectRefusal(t, w.exchange(bytes), 401, "credential_invalid")
	}
	if app.got() != "" {
		t.Fatalf("the app got %q", app.got())
	}
}

func TestATrustedProxyIsBelieved(t *testing.T) {
	app := answering(t, ok)
	w := newWorld(t, app.Addr(), trusting, public)
	w.exchange(request("GET /", "X-Forwarded-For: 6.6.6.6, 198.51.100.7, 127.0.0.1", "X-Forwarded-Proto: http"))
	if got := app.got(); !strings.Contains(got, "X-Forwarded-For: 198.51.100.7\r\nX-Forwarded-Proto: https\r\n") || strings.Contains(got, "6.6.6.6") {
		t.Fatalf("the app got %q", got)
	}
}

func TestManyRequestsOfAConnectionShareOneQuestionAndOneConnectionToTheApp(t *testing.T) {
	app := answering(t, ok)
	w := newWorld(t, app.Addr())
	conn := w.dial()
	reader := bufio.NewReader(conn)
	for range 50 {
		if response, body := ask(t, conn, reader, "GET / HTTP/1.1\r\nHost: "+host+"\r\nX-Service-Token: "+token+"\r\n\r\n"); response.StatusCode != 200 || body != "hello" {
			t.Fatal(response.Status, body)
		}
	}
	if w.cell.Asked() != 1 || app.connections() != 1 {
		t.Fatalf("%d questions, %d connections", w.cell.Asked(), app.connections())
	}
}

func TestRequestsOneBehindTheOtherAreAnsweredInOrder(t *testing.T) {
	app := newRawApp(t, func(conn net.Conn, reader *bufio.Reader) {
		for {
			r, err := http.ReadRequest(reader)
			if err != nil {
				return
			}
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s", len(r.URL.Path)+len(body), r.URL.Path, body)
		}
	})
	w := newWorld(t, app.Addr())
	head := " HTTP/1.1\r\nHost: " + host + "\r\nX-Service-Token: " + token + "\r\n"
	answer := w.exchange("\r\nGET /1" + head + "\r\nPOST /2" + head + "Content-Length: 3\r\n\r\nabcPOST /3" + head + "Transfer-Encoding: chunked\r\n\r\n2\r\nde\r\n0\r\n\r\n" +
		"GET /4" + head + "Connection: close\r\n\r\n")
	var bodies []string
	for _, part := range strings.Split(answer, "\r\n\r\n")[1:] {
		body, _, _ := strings.Cut(part, "HTTP/1.1")
		bodies = append(bodies, body)
	}
	if strings.Join(bodies, " ") != "/1 /2abc /3de /4" {
		t.Fatalf("%q", answer)
	}
}

func TestABodyOfAnySizePassesInBothDirections(t *testing.T) {
	w := newWorld(t, echoApp(t).Addr())
	payload := bytes.Repeat([]byte("0123456789abcdef"), 2<<20)
	sum := sha256.Sum256(payload)
	for name, body := range map[string]io.Reader{"of a known length": bytes.NewReader(payload), "in chunks": io.MultiReader(bytes.NewReader(payload))} {
		t.Run(name, func(t *testing.T) {
			r, _ := http.NewRequest(http.MethodPost, "http://"+w.address+"/", body)
			r.Host = host
			r.Header.Set("Authorization", "bearer "+token)
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			hash := sha256.New()
			if n, err := io.Copy(hash, response.Body); err != nil || n != int64(len(payload)) || !bytes.Equal(hash.Sum(nil), sum[:]) {
				t.Fatal(n, err)
			}
		})
	}
}

func echoApp(t testing.TB) net.Listener {
	return handlerApp(t, func(rw http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(rw)
		_ = control.EnableFullDuplex()
		rw.WriteHeader(200)
		_, _ = io.Copy(rw, r.Body)
	})
}

func handlerApp(t testing.TB, handler http.HandlerFunc) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	return listener
}

func TestWhatAnAppWritesIsSentAtOnce(t *testing.T) {
	next := make(chan string)
	w := newWorld(t, handlerApp(t, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		for event := range next {
			fmt.Fprintf(rw, "data: %s\n\n", event)
			_ = http.NewResponseController(rw).Flush()
		}
	}).Addr())
	conn := w.dial()
	_, _ = io.WriteString(conn, request("GET /"))
	reader := bufio.NewReader(conn)
	go func() { next <- "one" }()
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(response.Body)
	for _, event := range []string{"one", "two", "three"} {
		if event != "one" {
			next <- event
		}
		if line, _ := lines.ReadString('\n'); line != "data: "+event+"\n" {
			t.Fatalf("%q", line)
		}
		_, _ = lines.ReadString('\n')
	}
	close(next)
}

func TestTrailersPassInBothDirections(t *testing.T) {
	app := newRawApp(t, func(conn net.Conn, reader *bufio.Reader) {
		if readHeadOf(reader) == nil && readHeadOf(reader) == nil { // the trailers end with an empty line, too
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nX-Sum: 7\r\nX-Service-Reason: mine\r\n\r\n")
		}
	})
	w := newWorld(t, app.Addr())
	answer := w.exchange(request("POST /", "TE: gzip, trailers", "Trailer: X-A", "Transfer-Encoding: chunked") + "3;a=b\r\nabc\r\n0\r\nX-A: b\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n")
	if !strings.HasSuffix(answer, "\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n") || !strings.Contains(answer, "Trailer: X-Sum") {
		t.Fatalf("%q", answer)
	}
	if got := app.got(); !strings.HasSuffix(got, "3\r\nabc\r\n0\r\nX-A: b\r\n\r\n") || !strings.Contains(got, "TE: trailers\r\n") || strings.Contains(got, "1.2.3.4") {
		t.Fatalf("the app got %q", got)
	}
}

func TestABodyThatIsAskedForIsSentThen(t *testing.T) {
	app := newRawApp(t, func(conn net.Conn, reader *bufio.Reader) {
		if readHeadOf(reader) != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
		body := make([]byte, 5)
		_, _ = io.ReadFull(reader, body)
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n%s", body)
	})
	w := newWorld(t, app.Addr())
	conn := w.dial()
	reader := bufio.NewReader(conn)
	_, _ = io.WriteString(conn, request("POST /", "Expect: 100-continue", "Content-Length: 5"))
	if line, _ := reader.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q", line)
	}
	_, _ = reader.ReadString('\n')
	if response, body := ask(t, conn, reader, "hello"); response.StatusCode != 200 || body != "hello" {
		t.Fatal(response.Status, body)
	}
}

func TestABodyThatIsRefusedIsNotWaitedFor(t *testing.T) {
	w := newWorld(t, once(t, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").Addr())
	begun := time.Now()
	answer := w.exchange(request("POST /", "Expect: 100-continue", "Content-Length: 5"))
	if status(answer) != "413 Too Large" || time.Since(begun) > bodyAfterAnswer/2 {
		t.Fatalf("%q after %s", answer, time.Since(begun))
	}
}

func TestEarlyHintsPass(t *testing.T) {
	w := newWorld(t, once(t, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"+ok).Addr())
	answer := w.exchange(request("GET /"))
	if !strings.HasPrefix(answer, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n") {
		t.Fatalf("%q", answer)
	}
}

func TestAnswersWithoutABodyEndWithTheirHead(t *testing.T) {
	for _, each := range []struct{ method, answer, expected string }{
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n"},
		{"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nConnection: close\r\n\r\n"},
		{"GET", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"},
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"},
		{"GET", "HTTP/1.0 200 OK\r\n\r\nto the end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\na\r\nto the end\r\n0\r\n\r\n"},
		{"GET", "HTTP/1.1 200 OK\nA: b\n\nlines of another age", "HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n14\r\nlines of another age\r\n0\r\n\r\n"},
	} {
		w := newWorld(t, once(t, each.answer).Addr())
		if answer := w.exchange(request(each.method + " /")); answer != each.expected {
			t.Errorf("%s %q: %q", each.method, each.answer, answer)
		}
	}
}

func TestAnOldVisitorGetsABodyToTheEndOfItsConnection(t *testing.T) {
	w := newWorld(t, once(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n").Addr())
	answer := w.exchange("GET / HTTP/1.0\r\nHost: " + host + "\r\nX-Service-Token: " + token + "\r\n\r\n")
	if answer != "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok" {
		t.Fatalf("%q", answer)
	}
}

func TestAPooledConnectionThatHasEndedIsReplacedForAReadAndNeverUsedForABody(t *testing.T) {
	app := once(t, ok)
	w := newWorld(t, app.Addr())
	conn := w.dial()
	reader := bufio.NewReader(conn)
	for i := range 20 {
		bytes := "GET / HTTP/1.1\r\nHost: " + host + "\r\nX-Service-Token: " + token + "\r\n\r\n"
		if i%2 == 1 {
			bytes = "POST / HTTP/1.1\r\nHost: " + host + "\r\nX-Service-Token: " + token + "\r\nContent-Length: 0\r\n\r\n"
		}
		if response, _ := ask(t, conn, reader, bytes); response.StatusCode != 200 {
			t.Fatal(i, response.Status)
		}
	}
	if posts := strings.Count(app.got(), "POST"); posts != 10 {
		t.Fatalf("%d posts arrived", posts)
	}
}
