package proxy

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func TestAnAnswerThatIsNoneIsABadAnswerAndTheNextVisitorIsServed(t *testing.T) {
	for name, answer := range map[string]string{
		"two in one":                     "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nfor the next visitor",
		"a carriage return in a field":   "HTTP/1.1 200 OK\r\nX-A: b\rSet-Cookie: c\r\nContent-Length: 0\r\n\r\n",
		"a zero in a field":              "HTTP/1.1 200 OK\r\nX-A: b\x00\r\nContent-Length: 0\r\n\r\n",
		"status 999":                     "HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n",
		"status 99":                      "HTTP/1.1 099 What\r\nContent-Length: 0\r\n\r\n",
		"status 20":                      "HTTP/1.1 20 What\r\nContent-Length: 0\r\n\r\n",
		"endless hints":                  strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 10_000),
		"a hint of 9 KiB":                "HTTP/1.1 103 Early Hints\r\nX-A: " + strings.Repeat("a", 9<<10) + "\r\n\r\n" + ok,
		"Connection names many fields":   "HTTP/1.1 200 OK\r\nConnection: " + strings.Repeat("a,", 32) + "b\r\nContent-Length: 0\r\n\r\n",
		"a head of 1 MiB":                "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 1<<20) + "\r\n\r\n",
		"many fields":                    "HTTP/1.1 200 OK\r\n" + strings.Repeat("a: b\r\n", 5_000) + "\r\n",
		"a body that is too short":       "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
		"a body that is missing":         "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
		"two lengths":                    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"length and chunks":              "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"a coding of nobody":             "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"chunks that are none":           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
		"a switch that nobody asked for": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"no HTTP":                        "SSH-2.0-OpenSSH_9.6\r\n",
		"a line that goes on":            "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\n\r\n",
		"nothing":                        "",
	} {
		t.Run(name, func(t *testing.T) {
			var good bool
			app := newRawApp(t, func(conn net.Conn, reader *bufio.Reader) {
				if readHeadOf(reader) != nil {
					return
				}
				if good {
					_, _ = io.WriteString(conn, ok)
					return
				}
				_, _ = io.WriteString(conn, answer)
			})
			w := newWorld(t, app.Addr())
			got := w.exchange(request("GET /"))
			if at := strings.LastIndex(got, "HTTP/1.1 502"); at > 0 { // after hints
				got = got[at:]
			}
			expectRefusal(t, got, 502, "app_bad_answer")
			good = true
			if got := w.exchange(request("GET /")); !strings.HasSuffix(got, "hello") {
				t.Fatalf("%q", got)
			}
		})
	}
}

func TestAnAnswerThatEndsInTheMiddleIsNotTakenForAWholeOne(t *testing.T) {
	for name, head := range map[string]string{"of a known length": "Content-Length: 100000", "in chunks": "Transfer-Encoding: chunked"} {
		t.Run(name, func(t *testing.T) {
			begun := make(chan struct{})
			app := newRawApp(t, func(conn net.Conn, reader *bufio.Reader) {
				_ = readHeadOf(reader)
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+head+"\r\n\r\n3e8\r\n"+strings.Repeat("x", 1000)+"\r\n")
				<-begun
			})
			w := newWorld(t, app.Addr())
			conn := w.dial()
			_, _ = io.WriteString(conn, request("GET /"))
			reader := bufio.NewReader(conn)
			if _, err := reader.ReadString('x'); err != nil {
				t.Fatal(err)
			}
			close(begun)
			rest, err := io.ReadAll(reader)
			if err == nil || strings.HasSuffix(string(rest), "0\r\n\r\n") {
				t.Fatalf("it ended with %v after %q", err, rest[max(0, len(rest)-20):])
			}
		})
	}
}

func TestAnAppThatNeverAnswersAndOneThatDoesNotListenAreToldApart(t *testing.T) {
	t.Parallel()
	silent := newRawApp(t, func(_ net.Conn, reader *bufio.Reader) { _, _ = io.Copy(io.Discard, reader) })
	short := func(o *Options) { o.Times.Answer, o.Times.Start = 300*time.Millisecond, 2*time.Second }
	expectRefusal(t, newWorld(t, silent.Addr(), short).exchange(request("GET /")), 504, "app_timeout")
	expectRefusal(t, newWorld(t, silent.Addr(), short).exchange(request("POST /", "Content-Length: 1")+"x"), 504, "app_timeout")
	silent.Close()
	expectRefusal(t, newWorld(t, silent.Addr(), short).exchange(request("GET /")), 504, "app_not_listening")
}

func TestARequestWaitsForTheAppToListen(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr()
	listener.Close()
	w := newWorld(t, address)
	answer := make(chan string)
	go func() { answer <- w.exchange(request("POST /", "Content-Length: 4") + "body") }()
	for w.cell.Asked() == 0 {
		time.Sleep(time.Millisecond)
	}
	listener, err = net.Listen("tcp", address.String())
	if err != nil {
		t.Skip("somebody else has the port: ", err)
	}
	defer listener.Close()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	_ = readHeadOf(reader)
	body := make([]byte, 4)
	_, _ = io.ReadFull(reader, body)
	_, _ = io.WriteString(conn, ok)
	if got := <-answer; status(got) != "200 OK" || string(body) != "body" {
		t.Fatalf("%q, body %q", got, body)
	}
}

func TestAnAppThatRefusesABodyIsHeard(t *testing.T) {
	w := newWorld(t, once(t, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig").Addr())
	conn := w.dial()
	go func() {
		_, _ = io.WriteString(conn, request("POST /", "Content-Length: 100000000"))
		for piece := make([]byte, 64<<10); ; {
			if _, err := conn.Write(piece); err != nil {
				return
			}
		}
	}()
	line, _ := bufio.NewReader(conn).ReadString('\n')
	if line != "HTTP/1.1 413 Too Large\r\n" {
		t.Fatalf("%q", line)
	}
}
