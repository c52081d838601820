package proxy

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func unacknowledged(t *testing.T, conn net.Conn) uint32 {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var info *unix.TCPInfo
	if err := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); err != nil || info == nil {
		t.Fatal(err)
	}
	return info.Unacked
}

// The kernel delays acknowledgements by 40 ms, except a connection's first ones. A faster one proves that the proxy
// requests it.
func TestAnAppThatSendsHeadAndBodyApartIsNotKeptWaiting(t *testing.T) {
	const answers, first, soon = 60, 30, 15 * time.Millisecond
	prompt := 0
	app := newRawApp(t, func(conn net.Conn, reader *bufio.Reader) {
		for n := 0; readHeadOf(reader) == nil; n++ {
			began := time.Now()
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
			for unacknowledged(t, conn) > 0 && time.Since(began) < time.Second {
				time.Sleep(100 * time.Microsecond)
			}
			if n >= first && time.Since(began) < soon {
				prompt++
			}
			_, _ = io.WriteString(conn, "hello")
		}
	})
	w := newWorld(t, app.Addr())
	conn := w.dial()
	reader := bufio.NewReader(conn)
	for range answers {
		if _, body := ask(t, conn, reader, "GET / HTTP/1.1\r\nHost: "+host+"\r\nX-Service-Token: "+token+"\r\n\r\n"); body != "hello" {
			t.Fatalf("%q", body)
		}
	}
	if app.connections() != 1 || prompt == 0 {
		t.Fatalf("%d connections, %d prompt acknowledgements", app.connections(), prompt)
	}
}
