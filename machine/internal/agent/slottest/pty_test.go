package slottest

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

type screen struct {
	t    *testing.T
	conn net.Conn
	from *bufio.Reader
}

func (s *slot) open(id string, argv ...string) (r wire.PtyRecord) {
	s.t.Helper()
	s.expect(201, "POST", "/pty", wire.PtyRequest{SessionID: id, Fingerprint: "f", Argv: argv, Cwd: "/", User: "user",
		PtySize: wire.PtySize{Cols: 80, Rows: 24}}, &r)
	return r
}

func (s *slot) attach(id string, offset int64) *screen {
	s.t.Helper()
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", s.address, wire.AgentPort), 30*time.Second)
	must(s.t, err)
	s.t.Cleanup(func() { conn.Close() })
	must(s.t, conn.SetDeadline(time.Now().Add(testns.Patience(5*time.Minute))))
	_, err = fmt.Fprintf(conn, "POST /pty/%s/attach?offset=%d HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nX-Berth-Epoch: %d\r\n"+
		"Connection: Upgrade\r\nUpgrade: berth-frames\r\n\r\n", id, offset, s.key, s.epoch)
	must(s.t, err)
	from := bufio.NewReader(conn)
	answer, err := http.ReadResponse(from, nil)
	must(s.t, err)
	if answer.StatusCode != 101 {
		b, _ := io.ReadAll(answer.Body)
		s.t.Fatalf("attach: %d %s", answer.StatusCode, b)
	}
	return &screen{t: s.t, conn: conn, from: from}
}

func (s *screen) say(kind byte, data []byte) {
	s.t.Helper()
	head := make([]byte, wire.FrameHeader)
	head[0] = kind
	binary.BigEndian.PutUint32(head[4:], uint32(len(data)))
	_, err := s.conn.Write(append(head, data...))
	must(s.t, err)
}

func (s *screen) until(word string) (text string) {
	s.t.Helper()
	for !strings.Contains(text, word) {
		kind, data := s.frame()
		if kind != wire.FrameStdout && kind != wire.FrameHeartbeat {
			s.t.Fatalf("frame %d %s came before %q: %q", kind, data, word, text)
		}
		text += string(data)
	}
	return text
}

func (s *screen) frame() (kind byte, data []byte) {
	s.t.Helper()
	head := make([]byte, wire.FrameHeader)
	_, err := io.ReadFull(s.from, head)
	must(s.t, err)
	data = make([]byte, binary.BigEndian.Uint32(head[4:]))
	_, err = io.ReadFull(s.from, data)
	must(s.t, err)
	return head[0], data
}

func (s *screen) exit() (text string, r wire.PtyRecord) {
	s.t.Helper()
	for {
		kind, data := s.frame()
		if kind == wire.FrameExit {
			must(s.t, json.Unmarshal(data, &r))
			return text, r
		}
		text += string(data)
	}
}

func TestATerminalIsTheControllingOneOfItsUser(t *testing.T) {
	t.Parallel()
	s := newSlot(t, "").start().claim("a")
	s.open("a", "bash", "--norc")
	screen := s.attach("a", 0)
	screen.say(wire.FrameInput, []byte("PS1=; tty > /dev/tty; ls -ln $(tty) | cut -d' ' -f1,3; ls /proc/self/fd | wc -l; echo done$?\n"))
	if text := screen.until("done0"); !strings.Contains(text, "/dev/pts/") || !strings.Contains(text, "crw------- 1000") || !strings.Contains(text, "\n4\r\n") {
		t.Fatalf("%q", text)
	}
	screen.say(wire.FrameInput, []byte("sh -c 'echo begun; exec sleep 1000'\n"))
	screen.until("begun\r\n")
	s.sh("root", "until pgrep -fx 'sleep 1000'; do sleep 0.05; done")
	screen.say(wire.FrameInput, []byte{3})
	screen.say(wire.FrameInput, []byte("echo code$?; exit 4\n"))
	if text, r := screen.exit(); !strings.Contains(text, "code130\r\n") || *r.ExitCode != 4 {
		t.Fatalf("%q %+v", text, r)
	}
}

func TestAnAttachedConnectionThatSaysWhatItMayNotIsClosed(t *testing.T) {
	t.Parallel()
	s := newSlot(t, "").start().claim("a")
	s.open("a", "cat")
	screen := s.attach("a", 0)
	screen.say(wire.FrameStdout, []byte("x"))
	if _, err := screen.from.ReadByte(); err != io.EOF {
		t.Fatal(err)
	}
	var r wire.PtyRecord
	if s.expect(200, "GET", "/pty/a", nil, &r); r.State != "running" {
		t.Fatalf("%+v", r)
	}
	s.expect(200, "DELETE", "/pty/a", nil, nil)
	if _, r := s.attach("a", 0).exit(); *r.TermSignal != "SIGHUP" {
		t.Fatalf("%+v", r)
	}
}
