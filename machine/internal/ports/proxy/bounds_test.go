package proxy

import (
	"bufio"
	"encoding/binary"
	"io"
	"testing"
)

func TestTheBoundsTogetherAreWithinMemoryAndFiles(t *testing.T) {
	const files = 20_000 // the lowest limit of open files in a container
	if bytes := DefaultBounds.Bytes(); bytes > MemoryMax {
		t.Errorf("%d MiB of %d", bytes>>20, MemoryMax>>20)
	}
	if many := DefaultBounds.Files(); many > files {
		t.Errorf("%d files", many)
	}
	few := DefaultBounds.Within(4_096)
	if few.Files() > 4_096 || few.Connections < 1_024 || DefaultBounds.Within(files) != DefaultBounds {
		t.Errorf("%+v", few)
	}
}

// The proxy's first HTTP/2 frames announce how much unread data a visitor may send.
func TestAConnectionOfHTTP2HoldsNoMoreThanTheBoundsCountWith(t *testing.T) {
	change, _, _ := secured(t)
	w := newWorld(t, answering(t, ok).Addr(), change)
	conn := w.tlsDial("h2")
	_, _ = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	const settings, windowUpdate, initialWindow, connectionWindow = 4, 8, 4, 65_535
	reader, ofStream, ofConnection := bufio.NewReader(conn), -1, connectionWindow
	for ofStream < 0 || ofConnection == connectionWindow {
		var head [9]byte
		if _, err := io.ReadFull(reader, head[:]); err != nil {
			t.Fatal(ofStream, ofConnection, err)
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(reader, payload); err != nil {
			t.Fatal(err)
		}
		switch head[3] {
		case settings:
			for ; len(payload) > 0; payload = payload[6:] {
				if binary.BigEndian.Uint16(payload) == initialWindow {
					ofStream = int(binary.BigEndian.Uint32(payload[2:]))
				}
			}
		case windowUpdate:
			ofConnection += int(binary.BigEndian.Uint32(payload))
		}
	}
	if ofStream != h2ReceiveBytes || ofConnection != h2ReceiveBytes {
		t.Fatal(ofStream, ofConnection)
	}
}
