package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/door"
	"github.com/berth-dev/berth/machine/internal/ports/fakecell"
	"github.com/berth-dev/berth/machine/internal/ports/question"
	"github.com/berth-dev/berth/machine/internal/testns"
)

const (
	hostID    = "agnlulephz6udhcvaerukz4jvm"
	otherID   = "aebagbafaydqqcikbmga2dqpca"
	portHost  = "ports.test"
	host      = "3000-" + hostID + "." + portHost
	otherHost = "3000-" + otherID + "." + portHost
	patienceT = 60 * time.Second // for a test on a busy computer
)

var (
	token    = "sfp_" + strings.Repeat("t", 43)
	wrong    = "sfp_" + strings.Repeat("w", 43)
	cookie   = "sfc_" + strings.Repeat("c", 43)
	link     = "sfl_" + strings.Repeat("l", 43)
	callback = "sfcb_" + strings.Repeat("b", 43)
)

type world struct {
	t       testing.TB
	cell    *fakecell.Cell
	server  *Server
	link    *question.Link
	address string
	end     context.CancelFunc // as SIGTERM does
	ended   chan struct{}

	unconfirmed time.Duration

	mu     sync.Mutex
	app    net.Addr
	leases []uint64
	epoch  int64
}

type change func(*Options)

func newWorld(t testing.TB, app net.Addr, changes ...change) *world {
	t.Helper()
	w := &world{t: t, app: app, epoch: 1, unconfirmed: question.UnconfirmedMax}
	w.cell = fakecell.Start(t, w.decide)
	w.cell.OnBusy(w.ready)
	w.serve("127.0.0.1:0", changes...)
	return w
}

func (w *world) serve(address string, changes ...change) {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	pool := NewPool()
	w.link = question.NewLink(question.Options{Socket: w.cell.Socket, PortHost: portHost, Gone: pool.Drop, Unconfirmed: w.unconfirmed, Log: log})
	linked, unlink := context.WithCancel(context.Background())
	go w.link.Run(linked)
	for late := time.Now().Add(testns.Patience(patienceT)); !w.link.Connected() && time.Now().Before(late); { // the fake cell answers on the latest connection
		time.Sleep(time.Millisecond)
	}
	options := Options{Names: door.NewNames(portHost), Link: w.link, Pool: pool, Log: log, Scheme: "http", Times: DefaultTimes, Bounds: DefaultBounds}
	for _, change := range changes {
		change(&options)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.server, w.address = NewServer(options), listener.Addr().String()
	ctx, end := context.WithCancel(context.Background())
	server, ended := w.server, make(chan struct{})
	w.end, w.ended = end, ended
	go func() {
		defer close(ended)
		_ = server.Serve(ctx, listener, time.Second)
	}()
	w.t.Cleanup(func() {
		end()
		<-ended
		unlink()
	})
}

func (w *world) decide(ask fakecell.Ask) any {
	if ask.Credential.Value == link && ask.HostID == hostID {
		return fakecell.Redirect{Path: "/welcome?x=1", Cookie: cookie, MaxAgeSeconds: 600}
	}
	right := ask.Credential.Value == token || ask.Credential.Value == cookie || ask.Credential.Value == callback
	if !right || ask.HostID != hostID || ask.Port != 3000 {
		return fakecell.Refuse{Status: 401, Reason: "credential_invalid", Message: "This credential does not open this port."}
	}
	return w.grant()
}

func (w *world) grant() fakecell.Grant {
	lease := w.cell.NewLease()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leases = append(w.leases, lease)
	return grantTo(w.app, lease, w.epoch)
}

func grantTo(app net.Addr, lease uint64, epoch int64) fakecell.Grant {
	address := netip.MustParseAddrPort(app.String())
	return fakecell.Grant{Lease: lease, Address: address.Addr().String(), Port: int(address.Port()), WorkspaceID: "w", Epoch: epoch}
}

func (w *world) ready(lease uint64) any {
	w.mu.Lock()
	defer w.mu.Unlock()
	address := netip.MustParseAddrPort(w.app.String())
	return map[string]any{"ready": map[string]any{"lease": lease, "address": address.Addr().String(), "epoch": w.epoch}}
}

func (w *world) lease() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.leases) == 0 {
		w.t.Fatal("nothing was granted")
	}
	return w.leases[len(w.leases)-1]
}

func (w *world) dial() net.Conn {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(testns.Patience(patienceT)))
	w.t.Cleanup(func() { conn.Close() })
	return conn
}

func (w *world) exchange(bytes string) string {
	w.t.Helper()
	conn := w.dial()
	_, _ = io.WriteString(conn, bytes)
	answer, err := io.ReadAll(conn)
	if err != nil && !errors.Is(err, io.EOF) && len(answer) == 0 {
		w.t.Fatalf("no answer to %q: %v", bytes, err)
	}
	return string(answer)
}

func request(line string, fields ...string) string {
	return line + " HTTP/1.1\r\nHost: " + host + "\r\nX-Service-Token: " + token + "\r\nConnection: close\r\n" + strings.Join(append(fields, ""), "\r\n") + "\r\n"
}

func ask(t testing.TB, conn net.Conn, reader *bufio.Reader, bytes string) (*http.Response, string) {
	t.Helper()
	if _, err := io.WriteString(conn, bytes); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func status(answer string) string {
	line, _, _ := strings.Cut(answer, "\r\n")
	return strings.TrimPrefix(line, "HTTP/1.1 ")
}

func header(answer, name string) string {
	head, _, _ := strings.Cut(answer, "\r\n\r\n")
	for _, line := range strings.Split(head, "\r\n") {
		if key, value, _ := strings.Cut(line, ":"); strings.EqualFold(key, name) {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func expectRefusal(t testing.TB, answer string, code int, reason string) {
	t.Helper()
	if !strings.HasPrefix(status(answer), fmt.Sprint(code, " ")) || header(answer, "x-service-reason") != reason {
		t.Fatalf("not %d %s but %.300q", code, reason, answer)
	}
}

type rawApp struct {
	net.Listener
	mu   sync.Mutex
	seen strings.Builder
	many int
}

func newRawApp(t testing.TB, serve func(conn net.Conn, reader *bufio.Reader)) *rawApp {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	a := &rawApp{Listener: listener}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			a.mu.Lock()
			a.many++
			a.mu.Unlock()
			go func() {
				defer conn.Close()
				serve(conn, bufio.NewReader(io.TeeReader(conn, a)))
			}()
		}
	}()
	return a
}

func (a *rawApp) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen.Write(p)
}

func (a *rawApp) got() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen.String()
}

func (a *rawApp) connections() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.many
}

func answering(t testing.TB, answer string) *rawApp {
	return newRawApp(t, func(conn net.Conn, reader *bufio.Reader) {
		for readHeadOf(reader) == nil {
			if _, err := io.WriteString(conn, answer); err != nil {
				return
			}
		}
	})
}

func once(t testing.TB, answer string) *rawApp {
	return newRawApp(t, func(conn net.Conn, reader *bufio.Reader) {
		if readHeadOf(reader) == nil {
			_, _ = io.WriteString(conn, answer)
		}
	})
}

func readHeadOf(reader *bufio.Reader) error {
	for {
		line, err := reader.ReadString('\n')
		if err != nil || line == "\r\n" {
			return err
		}
	}
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

func readAll(conn net.Conn) string {
	answer, _ := io.ReadAll(conn)
	return string(answer)
}
