package hostd

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
)

// gVisor saved old connections too, so each suspend made images larger
// (machine/runsc/patches/correctness/endpoints-leave-the-image.patch).
func TestConnectionsOfEarlierLivesLeaveTheImage(t *testing.T) {
	const suspends, connections = 5, 50
	d := withOthers(t)
	workspace := newID()
	m := d.startMachine(workspace, 1)
	var sizes []int64
	for epoch := int64(2); epoch < 2+suspends; epoch++ {
		for range connections {
			// The guest closes first, so the connection stays in the guest's TIME_WAIT for a minute.
			connection, err := net.Dial("tcp", m.Address)
			must(t, err)
			_, err = connection.Write([]byte("GET / HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n"))
			must(t, err)
			_, err = io.Copy(io.Discard, connection)
			must(t, errors.Join(err, connection.Close()))
		}
		id := newID()
		d.checkpoint(m, id, "paused")
		d.stop(m)
		image, err := os.Stat(d.seenByHostd("pool/ws", workspace, "checkpoints", id, "checkpoint.img"))
		must(t, err)
		sizes = append(sizes, image.Size())
		m = d.restore(workspace, id, epoch)
	}
	d.stop(m)
	t.Logf("bytes of the images: %v", sizes)
	// The first image has no connections, so it is not compared. Each saved connection is several KiB.
	if grown := sizes[suspends-1] - sizes[1]; grown > connections<<10 {
		t.Errorf("the images grow by %d bytes in %d suspends: %v", grown, suspends-2, sizes)
	}
}
