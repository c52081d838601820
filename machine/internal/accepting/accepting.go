// Package accepting takes connections also while the process, or the computer, has no file left for one.
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

// Next is the next connection. It returns an error only when the listener is closed: any other one passes, and would end the service of all callers.
func Next(listener net.Listener) (net.Conn, error) {
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		conn, err := listener.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		time.Sleep(pause)
	}
}
