package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/testns"
)

func certify(t testing.TB, certificate, key string, serial int64) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{"*." + portHost}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func secured(t testing.TB) (change, string, string) {
	folder := t.TempDir()
	certificate, key := filepath.Join(folder, "c"), filepath.Join(folder, "k")
	certify(t, certificate, key, 1)
	certificates, err := OpenCertificates(certificate, key, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) { o.Certificates, o.Scheme = certificates, "https" }, certificate, key
}

func (w *world) client(h2 bool) *http.Client {
	return &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: h2,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, ServerName: host},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", w.address)
		},
	}}
}

func (w *world) tlsDial(protocol string) *tls.Conn {
	w.t.Helper()
	conn, err := tls.Dial("tcp", w.address, &tls.Config{InsecureSkipVerify: true, ServerName: host, NextProtos: []string{protocol}})
	if err != nil {
		w.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(testns.Patience(patienceT)))
	w.t.Cleanup(func() { conn.Close() })
	return conn
}

func h2Get(t testing.TB, client *http.Client) *http.Response {
	t.Helper()
	response, err := client.Get("https://" + host + "/")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response
}

func TestTLSWithBothVersionsOfHTTP(t *testing.T) {
	app := handlerApp(t, func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rw.Header().Set("Trailer", "X-Sum")
		rw.Header().Set("X-Service-Reason", "mine")
		fmt.Fprintf(rw, "%s %s %s %s %s %q %s", r.Proto, r.Method, r.RequestURI, r.Host, r.Header.Get("X-Forwarded-Proto"), r.Header["Cookie"], body)
		rw.Header().Set("X-Sum", "7")
	})
	change, _, _ := secured(t)
	w := newWorld(t, app.Addr(), change)
	for _, h2 := range []bool{false, true} {
		for _, body := range []io.Reader{nil, strings.NewReader("known"), io.MultiReader(strings.NewReader("chunks"))} {
			r, _ := http.NewRequest(http.MethodPost, "https://"+host+"//a%2Fb?c", body)
			r.Header.Set("Cookie", "a=1; __Host-berth-port="+cookie+"; b=2")
			r.Header.Set("Origin", "https://"+host)
			client := w.client(h2)
			response, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(response.Body)
			response.Body.Close()
			client.CloseIdleConnections()
			expected := `HTTP/1.1 POST //a%2Fb?c ` + host + ` https ["a=1; b=2"] `
			if err != nil || response.StatusCode != 200 || !strings.HasPrefix(string(text), expected) || response.Header.Get("X-Service-Reason") != "" ||
				response.Trailer.Get("X-Sum") != "7" || (response.ProtoMajor == 2) != h2 {
				t.Fatalf("%s %s %v %q %v", response.Proto, response.Status, err, text, response.Trailer)
			}
		}
		r, _ := http.NewRequest(http.MethodGet, "https://"+host+"/", nil)
		response, err := w.client(h2).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != 401 || response.Header.Get("X-Service-Reason") != "credential_missing" {
			t.Fatal(response.Status, response.Header)
		}
	}
}

func TestAnAnswerThatEndsInTheMiddleResetsAStreamOfHTTP2(t *testing.T) {
	change, _, _ := secured(t)
	for name, answer := range map[string]string{
		"before it has begun": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
		"after":               "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + strings.Repeat("x", 100_000),
	} {
		w := newWorld(t, once(t, answer).Addr(), change)
		r, _ := http.NewRequest(http.MethodGet, "https://"+host+"/", nil)
		r.Header.Set("X-Service-Token", token)
		response, err := w.client(true).Do(r)
		if err != nil {
			t.Fatal(name, err)
		}
		_, err = io.ReadAll(response.Body)
		response.Body.Close()
		if bad := response.StatusCode == 502 && response.Header.Get("X-Service-Reason") == "app_bad_answer"; bad != (name != "after") || bad != (err == nil) {
			t.Fatal(name, response.Status, err)
		}
	}
}

func TestACertificateIsReplacedWhileConnectionsLast(t *testing.T) {
	t.Parallel()
	change, certificate, key := secured(t)
	w := newWorld(t, answering(t, ok).Addr(), change)
	dial := func() *tls.Conn {
		conn, err := tls.Dial("tcp", w.address, &tls.Config{InsecureSkipVerify: true, ServerName: host})
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	first := dial()
	certify(t, certificate, key, 2)
	if err := os.WriteFile(key, []byte("half a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if serial := dial().ConnectionState().PeerCertificates[0].SerialNumber.Int64(); serial != 1 {
		t.Fatal(serial)
	}
	certify(t, certificate, key, 3)
	for begun := time.Now(); dial().ConnectionState().PeerCertificates[0].SerialNumber.Int64() != 3; {
		if time.Since(begun) > testns.Patience(patienceT) {
			t.Fatal("the new certificate is not used")
		}
	}
	if response, _ := ask(t, first, bufio.NewReader(first), request("GET /")); response.StatusCode != 200 {
		t.Fatal(response.Status)
	}
}

func TestTwoHundredWebSocketsAndAStreamAtOnce(t *testing.T) {
	const streamed = 64 << 20
	app := newRawApp(t, func(conn net.Conn, reader *bufio.Reader) {
		r, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		if r.Header.Get("Upgrade") != "" {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_, _ = io.Copy(conn, reader)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		for piece, left := make([]byte, 64<<10), streamed; left > 0; left -= len(piece) {
			if _, err := conn.Write(piece); err != nil {
				return
			}
		}
	})
	w := newWorld(t, app.Addr())
	var group sync.WaitGroup
	group.Go(func() {
		conn := w.dial()
		_, _ = io.WriteString(conn, request("GET /"))
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Error(err)
			return
		}
		begun := time.Now()
		n, err := io.Copy(io.Discard, response.Body)
		if err != nil || n != streamed {
			t.Error(n, err)
		}
		t.Logf("%.0f MB/s", float64(n)/1e6/time.Since(begun).Seconds())
	})
	for i := range 200 {
		group.Go(func() {
			conn := w.dial()
			reader := bufio.NewReader(conn)
			_, _ = io.WriteString(conn, strings.Replace(request("GET /", upgrade), "Connection: close\r\n", "", 1))
			if err := readHeadOf(reader); err != nil {
				t.Error(err)
				return
			}
			for round := range 20 {
				message := fmt.Sprintf("%d of %d\n", round, i)
				_, _ = io.WriteString(conn, message)
				if got, err := reader.ReadString('\n'); got != message {
					t.Error(got, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestHalfOfAConnectionMayEndAfterAnUpgrade(t *testing.T) {
	app := newRawApp(t, func(conn net.Conn, reader *bufio.Reader) {
		_ = readHeadOf(reader)
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
		all, _ := io.ReadAll(reader)
		_, _ = fmt.Fprintf(conn, "%d bytes", len(all))
	})
	w := newWorld(t, app.Addr())
	conn := w.dial()
	_, _ = io.WriteString(conn, strings.Replace(request("POST /", "Upgrade: tcp", "Connection: Upgrade", "Content-Length: 2"), "Connection: close\r\n", "", 1)+"{}")
	_, _ = io.WriteString(conn, "12345")
	_ = conn.(*net.TCPConn).CloseWrite()
	if answer, _ := io.ReadAll(conn); !bytes.HasSuffix(answer, []byte("\r\n\r\n7 bytes")) {
		t.Fatalf("%q", answer)
	}
}

func TestEndingLetsRequestsEndAndCutsStreams(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	app := newRawApp(t, func(conn net.Conn, reader *bufio.Reader) {
		r, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		if r.Header.Get("Upgrade") != "" {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_, _ = io.Copy(conn, reader)
			return
		}
		<-release
		_, _ = io.WriteString(conn, ok)
	})
	w := newWorld(t, app.Addr())
	_, socket := w.open(upgrade)
	idle := w.dial()
	answer := make(chan string)
	go func() { answer <- w.exchange(request("GET /")) }()
	for app.connections() < 2 {
		time.Sleep(time.Millisecond)
	}
	w.end()
	if _, err := idle.Read(make([]byte, 1)); err == nil {
		t.Fatal("a connection without a request goes on")
	}
	close(release)
	if got := <-answer; status(got) != "200 OK" {
		t.Fatalf("%q", got)
	}
	if _, err := socket.ReadByte(); err == nil {
		t.Fatal("a WebSocket goes on")
	}
	<-w.ended
	if _, err := net.Dial("tcp", w.address); err == nil {
		t.Fatal("it still listens")
	}
}

func TestAWebSocketIsToldBetweenTwoFramesThatTheServiceEnds(t *testing.T) {
	t.Parallel()
	long := append([]byte{0x82, 126, 0x01, 0x00}, bytes.Repeat([]byte{0x88}, 256)...)
	for name, each := range map[string]struct {
		sent  []byte
		whole bool
	}{
		"nothing yet":      {nil, true},
		"a short frame":    {[]byte{0x81, 2, 'h', 'i'}, true},
		"a long frame":     {long, true},
		"half a frame":     {long[:100], false},
		"half a head":      {long[:3], false},
		"two and a half":   {append(append([]byte{0x81, 0}, long...), 0x81), false},
		"one of 64 bits":   {append([]byte{0x82, 127, 0, 0, 0, 0, 0, 0, 0, 3}, "abc"...), true},
		"one with a mask":  {append([]byte{0x82, 0x81, 1, 2, 3, 4}, 'a'), true},
		"most of the mask": {[]byte{0x82, 0x81, 1, 2, 3}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := newRawApp(t, func(conn net.Conn, reader *bufio.Reader) {
				_ = readHeadOf(reader)
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n")
				_, _ = conn.Write(each.sent)
				_, _ = io.Copy(io.Discard, reader)
			})
			w := newWorld(t, app.Addr())
			conn := w.dial()
			_, _ = io.WriteString(conn, strings.Replace(request("GET /", upgrade), "Connection: close\r\n", "", 1))
			reader := bufio.NewReader(conn)
			if err := readHeadOf(reader); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(each.sent))
			if _, err := io.ReadFull(reader, got); err != nil || !bytes.Equal(got, each.sent) {
				t.Fatal(got, err)
			}
			w.end()
			rest, _ := io.ReadAll(reader)
			if bytes.Equal(rest, goingAway) != each.whole || !each.whole && len(rest) > 0 {
				t.Fatalf("%x", rest)
			}
		})
	}
}

func TestConnectionsAndRequestsHaveBounds(t *testing.T) {
	w := newWorld(t, streaming(t).Addr(), func(o *Options) {
		o.Bounds = Bounds{Connections: 6, ConnectionsOfAClient: 4, Requests: 9, RequestsOfAWorkspace: 2, RequestsUnproven: 9, RequestsOfAClient: 3}
	})
	first, _ := w.open()
	w.open()
	expectRefusal(t, w.exchange(request("GET /")), 429, "too_many_requests")
	w.dial()
	w.dial()
	if _, err := w.dial().Read(make([]byte, 1)); err == nil {
		t.Fatal("a fifth connection of a client is served")
	}
	first.Close()
	for begun := time.Now(); ; {
		conn := w.dial()
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		conn.Close()
		if err == nil && strings.Contains(line, "401") {
			return
		}
		if time.Since(begun) > testns.Patience(patienceT) {
			t.Fatal("the place of a connection that has ended is not free")
		}
	}
}

func TestFiveHundredSlowConnectionsHinderNobody(t *testing.T) {
	w := newWorld(t, answering(t, ok).Addr(), func(o *Options) { o.Bounds.ConnectionsOfAClient = 1_000 })
	for range 500 {
		_, _ = io.WriteString(w.dial(), "GET / HT")
	}
	begun := time.Now()
	if answer := w.exchange(request("GET /")); status(answer) != "200 OK" {
		t.Fatalf("%q after %s", answer, time.Since(begun))
	}
}
