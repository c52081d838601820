package proxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/fakecell"
	"github.com/berth-dev/berth/machine/internal/testns"
)

func await(t testing.TB, cell *fakecell.Cell, word string) (value struct {
	Lease         uint64 `json:"lease"`
	Requests      int64  `json:"requests"`
	ReceivedBytes int64  `json:"received_bytes"`
	SentBytes     int64  `json:"sent_bytes"`
	AtMsAgo       int64  `json:"at_ms_ago"`
	UsedMsAgo     int64  `json:"used_ms_ago"`
	ID            uint64 `json:"id"`
	Version       int    `json:"version"`
	PortHost      string `json:"port_host"`
}) {
	t.Helper()
	for late := time.After(testns.Patience(patienceT)); ; {
		select {
		case frame := <-cell.Frames:
			if text, found := frame[word]; found {
				if err := json.Unmarshal(text, &value); err != nil {
					t.Fatal(err)
				}
				return value
			}
		case <-late:
			t.Fatalf("no frame %q came", word)
		}
	}
}

func TestTheCellIsToldOfPausesAndCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, answering(t, ok).Addr())
	if hello := await(t, w.cell, "hello"); hello.Version != 3 || hello.PortHost != portHost {
		t.Fatal(hello)
	}
	answer := w.exchange(request("GET /"))
	idle := await(t, w.cell, "idle")
	if idle.Lease != w.lease() || idle.AtMsAgo < 1_000 {
		t.Fatal(idle)
	}
	w.mu.Lock()
	w.epoch = 2 // the machine was hibernated and woken
	w.mu.Unlock()
	if again := w.exchange(request("GET /")); again != answer {
		t.Fatalf("%q", again)
	}
	await(t, w.cell, "busy")
	count := await(t, w.cell, "count")
	if head := int64(len("HTTP/1.1 200 OK\r\n\r\n")); count.Requests != 2 || count.SentBytes != 2*(head+5) || count.ReceivedBytes != 0 {
		t.Fatal(count)
	}
	if release := await(t, w.cell, "release"); release.Lease != w.lease() || release.UsedMsAgo < 10_000 {
		t.Fatal(release)
	}
	if w.cell.Asked() != 1 {
		t.Fatal(w.cell.Asked())
	}
}

func streaming(t testing.TB) *rawApp {
	return newRawApp(t, func(conn net.Conn, reader *bufio.Reader) {
		r, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		if r.Header.Get("Upgrade") != "" {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_, _ = io.Copy(conn, reader)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
		_, _ = io.Copy(io.Discard, reader)
	})
}

const upgrade = "Upgrade: websocket\r\nConnection: Upgrade"

func (w *world) open(fields ...string) (net.Conn, *bufio.Reader) {
	w.t.Helper()
	conn := w.dial()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+host+"\r\nX-Service-Token: "+token+"\r\n"+strings.Join(append(fields, ""), "\r\n")+"\r\n")
	reader := bufio.NewReader(conn)
	if err := readHeadOf(reader); err != nil {
		w.t.Fatal(err)
	}
	if len(fields) > 0 {
		_, _ = io.WriteString(conn, "x")
	}
	if _, err := reader.ReadString('x'); err != nil {
		w.t.Fatal(err)
	}
	return conn, reader
}

func TestALeaseThatIsTakenBackEndsItsStreamsAtOnce(t *testing.T) {
	app := streaming(t)
	w := newWorld(t, app.Addr())
	for name, fields := range map[string][]string{"a stream": nil, "a WebSocket": {upgrade}} {
		t.Run(name, func(t *testing.T) {
			_, reader := w.open(fields...)
			begun := time.Now()
			w.cell.Cut(w.lease(), "credential_revoked", 401)
			if rest, err := io.ReadAll(reader); err == nil && len(fields) == 0 || strings.Contains(string(rest), "0\r\n\r\n") {
				t.Fatalf("%q %v", rest, err)
			}
			if time.Since(begun) > 10*time.Second {
				t.Fatal(time.Since(begun))
			}
		})
	}
	asked := w.cell.Asked()
	w.open()
	if w.cell.Asked() != asked+1 {
		t.Fatal("a lease that was taken back was used again")
	}
}

func TestARequestWithoutAnAnswerIsToldWhyItsLeaseWasTakenBack(t *testing.T) {
	app := newRawApp(t, func(_ net.Conn, reader *bufio.Reader) { _, _ = io.Copy(io.Discard, reader) })
	w := newWorld(t, app.Addr())
	for reason, code := range map[string]int{"credential_revoked": 401, "credential_expired": 401, "port_closed": 404, "workspace_gone": 404} {
		before := len(app.got())
		answer := make(chan string)
		go func() { answer <- w.exchange(request("GET /")) }()
		for len(app.got()) == before {
			time.Sleep(time.Millisecond)
		}
		w.cell.Cut(w.lease(), reason, code)
		expectRefusal(t, <-answer, code, reason)
	}
}

func TestALeaseEndsWithItsTime(t *testing.T) {
	t.Parallel()
	app := streaming(t)
	w := newWorld(t, app.Addr())
	soon := int64(1_000)
	w.cell = fakecell.Start(t, func(fakecell.Ask) any {
		grant := w.grant()
		grant.ExpiresInMs = &soon
		return grant
	})
	w.serve("127.0.0.1:0")
	_, reader := w.open(upgrade)
	if _, err := reader.ReadByte(); err == nil {
		t.Fatal("it goes on")
	}
}

// Another machine may get the address of a deleted one, so old connections must not be reused.
func TestAConnectionToAMachineThatMovedIsNotUsedAgain(t *testing.T) {
	first := answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst")
	second := answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond")
	w := newWorld(t, first.Addr())
	if answer := w.exchange(request("GET /")); !strings.HasSuffix(answer, "first") {
		t.Fatalf("%q", answer)
	}
	w.mu.Lock()
	w.app, w.epoch = second.Addr(), 2
	w.mu.Unlock()
	w.cell.Cut(w.lease(), "machine_moved", 503)
	for before := w.cell.Asked(); w.cell.Asked() == before; { // the cut and the request race
		if answer := w.exchange(request("GET /")); w.cell.Asked() > before && !strings.HasSuffix(answer, "second") {
			t.Fatalf("%q", answer)
		}
	}
	pool := w.server.options.Pool
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if pool.count > 1 {
		t.Fatal(pool.count, "connections are kept")
	}
}

func TestAStreamLivesThroughARestartOfTheCell(t *testing.T) {
	t.Parallel()
	w := newWorld(t, streaming(t).Addr())
	conn, reader := w.open(upgrade)
	w.cell.Stop()
	expectSoon(t, w, 503, "unavailable")
	_, _ = io.WriteString(conn, "y")
	if c, err := reader.ReadByte(); c != 'y' || err != nil {
		t.Fatal(c, err)
	}
	w.cell.Listen(t)
	for asked := 0; asked < 2; asked = w.cell.Asked() {
		time.Sleep(time.Millisecond)
	}
	_, _ = io.WriteString(conn, "z")
	if c, err := reader.ReadByte(); c != 'z' || err != nil {
		t.Fatal(c, err)
	}
	w.mu.Lock()
	w.epoch++
	w.mu.Unlock()
	w.cell.Stop()
	w.cell.Listen(t)
	if _, err := reader.ReadByte(); err == nil {
		t.Fatal("a stream of a machine that is gone goes on")
	}
}

func TestAStreamThatNobodyConfirmsEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, streaming(t).Addr())
	w.end()
	<-w.ended
	w.unconfirmed = time.Second
	w.serve("127.0.0.1:0")
	_, reader := w.open(upgrade)
	w.cell.Stop()
	if _, err := reader.ReadByte(); err == nil {
		t.Fatal("it goes on")
	}
}

func TestTheCellIsToldWhenEveryStreamOfWhatItCutHasEnded(t *testing.T) {
	ended := make(chan struct{})
	app := newRawApp(t, func(conn net.Conn, reader *bufio.Reader) {
		_ = readHeadOf(reader)
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nx")
		_, _ = io.Copy(io.Discard, reader)
		close(ended)
	})
	w := newWorld(t, app.Addr())
	w.open(upgrade)
	w.cell.Cut(w.lease(), "credential_revoked", 401)
	w.cell.Send(map[string]any{"settle": map[string]any{"id": 7}})
	if settled := await(t, w.cell, "settled"); settled.ID != 7 {
		t.Fatal(settled)
	}
	select {
	case <-ended: // portd's close arrives here a moment later
	case <-time.After(testns.Patience(patienceT)):
		t.Fatal("the app's side goes on")
	}
}

// While the cell was unreachable, it may have revoked the leases.
func TestStreamsThatAreNotConfirmedAreNotSettled(t *testing.T) {
	w := newWorld(t, streaming(t).Addr())
	asks := make(chan fakecell.Ask, 9)
	w.cell = fakecell.Start(t, func(asked fakecell.Ask) any {
		if asks <- asked; len(asks) > 1 {
			return nil
		}
		return w.grant()
	})
	w.serve("127.0.0.1:0")
	_, reader := w.open(upgrade)
	w.cell.Stop()
	for w.link.Connected() {
		time.Sleep(time.Millisecond)
	}
	w.cell.Listen(t)
	await(t, w.cell, "ask")
	again := await(t, w.cell, "ask")
	w.cell.Send(map[string]any{"settle": map[string]any{"id": 1}})
	w.cell.Send(map[string]any{"refuse": map[string]any{"id": again.ID, "status": 401, "reason": "credential_invalid", "message": "m"}})
	if settled := await(t, w.cell, "settled"); settled.ID != 1 {
		t.Fatal(settled)
	}
	if rest, _ := io.ReadAll(reader); len(rest) > 0 {
		t.Fatalf("%q", rest)
	}
}

func expectSoon(t testing.TB, w *world, code int, reason string) {
	t.Helper()
	for begun := time.Now(); ; {
		answer := w.exchange(strings.Replace(request("GET /"), token, "sfp_"+fmt.Sprintf("%043d", time.Now().UnixNano()%1e9), 1))
		if strings.HasPrefix(status(answer), fmt.Sprint(code)) && header(answer, "x-service-reason") == reason {
			return
		}
		if time.Since(begun) > testns.Patience(patienceT) {
			t.Fatalf("%q", answer)
		}
	}
}

func TestAVisitorWhoLeavesWithdrawsTheQuestion(t *testing.T) {
	w := newWorld(t, answering(t, ok).Addr())
	w.cell = fakecell.Start(t, func(fakecell.Ask) any { return nil })
	w.serve("127.0.0.1:0")
	conn := w.dial()
	_, _ = io.WriteString(conn, request("GET /"))
	asked := await(t, w.cell, "ask")
	conn.Close()
	if abort := await(t, w.cell, "abort"); abort.ID != asked.ID {
		t.Fatal(abort, asked)
	}
}

func TestAWorkspaceThatDoesNotRunInTimeIsToldAsSuch(t *testing.T) {
	w := newWorld(t, answering(t, ok).Addr())
	w.cell = fakecell.Start(t, func(fakecell.Ask) any { return nil })
	w.serve("127.0.0.1:0", func(o *Options) { o.Times.Start = 300 * time.Millisecond })
	expectRefusal(t, w.exchange(request("GET /")), 504, "starting_timeout")
}
