package proxy

import (
	"encoding/binary"
	"strings"
	"sync/atomic"

	"github.com/berth-dev/berth/machine/internal/ports/door"
)

// goingAway is a close frame with status 1001.
var goingAway = []byte{0x88, 0x02, 0x03, 0xe9}

const frameHeadMax = 14

// frames follows the frames of a WebSocket, because a close frame may be inserted only between two of them.
type frames struct {
	sink
	left    uint64 // bytes left of the payload
	head    [frameHeadMax]byte
	have    int // bytes of the next head that have arrived
	leaving atomic.Bool
	said    bool
}

func isWebSocket(protocol string) bool { return strings.EqualFold(protocol, "websocket") }

func (f *frames) Write(p []byte) (int, error) {
	if f.said {
		return len(p), nil
	}
	f.follow(p)
	return f.sink.Write(p)
}

func (f *frames) follow(p []byte) {
	for len(p) > 0 {
		if f.left > 0 {
			passed := min(f.left, uint64(len(p)))
			f.left -= passed
			p = p[passed:]
			continue
		}
		f.head[f.have] = p[0]
		f.have++
		p = p[1:]
		if f.have == headLength(f.head[:f.have]) {
			f.left, f.have = payloadLength(f.head), 0
		}
	}
}

// The format of a head: RFC 6455, 5.2.
func headLength(head []byte) int {
	length := 2
	if len(head) < length {
		return length
	}
	switch head[1] & 0x7f {
	case 126:
		length += 2
	case 127:
		length += 8
	}
	if head[1]&0x80 != 0 {
		length += 4
	}
	return length
}

func payloadLength(head [frameHeadMax]byte) uint64 {
	switch short := head[1] & 0x7f; short {
	case 126:
		return uint64(binary.BigEndian.Uint16(head[2:]))
	case 127:
		return binary.BigEndian.Uint64(head[2:])
	default:
		return uint64(short)
	}
}

func (f *frames) flush() error {
	if f.leaving.Load() && !f.said && f.left == 0 && f.have == 0 {
		f.said = true
		if _, err := f.sink.Write(goingAway); err != nil {
			return err
		}
	}
	return f.sink.flush()
}

// farewell tells a WebSocket's visitor that the service ends. The app's side closes first, so that the visitor gets a
// close frame.
func (e *exchange) farewell() {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.over:
	case e.frames != nil:
		e.frames.leaving.Store(true)
		e.held.Close()
	default:
		e.cutBy = door.Refuse("unavailable")
		e.stop()
	}
}

func (e *exchange) toVisitor(protocol string) sink {
	if !isWebSocket(protocol) {
		return e.visitor
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.frames = &frames{sink: e.visitor}
	return e.frames
}
