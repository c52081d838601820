package secretproxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

const (
	helloTimeout  = 5 * time.Second // after this time without a byte, the client probably waits for the server, and the connection is passed on
	helloBytesMax = 16 << 10
	tlsHandshake  = 0x16
)

type hello struct {
	read  []byte // all bytes that were read from the connection
	isTLS bool
	name  string // SNI
}

var errSeen = errors.New("the hello was seen")

// peek reads a TLS hello and returns its server name. If the first byte is not TLS, only that byte is read.
func peek(conn net.Conn) (hello, error) {
	var h hello
	if err := conn.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return h, err
	}
	first := make([]byte, 1)
	n, err := conn.Read(first)
	h.read = first[:n]
	if err != nil && !isTimeout(err) {
		return h, err
	}
	if n == 1 && first[0] == tlsHandshake {
		seen := bytes.NewBuffer(h.read)
		rest := io.TeeReader(io.LimitReader(conn, helloBytesMax), seen)
		_ = tls.Server(deafConn{conn, io.MultiReader(bytes.NewReader(first), rest)}, &tls.Config{
			GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
				h.isTLS, h.name = true, info.ServerName
				return nil, errSeen
			}}).Handshake() // fails with errSeen, or because this is not TLS
		h.read = seen.Bytes()
	}
	return h, conn.SetReadDeadline(time.Time{})
}

func isTimeout(err error) bool {
	var failed net.Error
	return errors.As(err, &failed) && failed.Timeout()
}

// deafConn refuses writes, because the client must not get an answer yet.
type deafConn struct {
	net.Conn
	reads io.Reader
}

func (c deafConn) Read(p []byte) (int, error)  { return c.reads.Read(p) }
func (c deafConn) Write(p []byte) (int, error) { return 0, io.ErrClosedPipe }
