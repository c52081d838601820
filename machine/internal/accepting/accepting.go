// Package accepting accepts connections, and goes on after the process or computer ran out of file descriptors.
package accepting

import (
	"errors"
	"net"
	"time"
)

const (
	pauseMin = 5 * time.Millisecond
	pauseMax = time.Second
)

// Next returns the next connection, and an error only when the listener is closed. It retries all other errors, because
// returning one would end the service for all callers.
func Next(listener net.Listener) (net.Conn, error) {
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		conn, err := listener.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		time.Sleep(pause)
	}
}
