package secretproxy

import (
	"crypto/tls"
	"errors"
	"sync/atomic"
)

var errTooManyFields = errors.New("a head of too many fields")

type headKey struct{}

// headConn limits the number of a head's fields. net/http limits only bytes, and an empty field of four bytes costs
// thirty times as much memory. HTTP/2 needs no such limit, because it counts 32 additional bytes for each field.
type headConn struct {
	*tls.Conn
	handled  atomic.Bool  // the head was read, and a body follows
	answered atomic.Int64 // number of answered requests

	head head
}

type head struct {
	answered int64
	lines    int
	empty    bool // the current line has no character yet
	over     bool
}

func (c *headConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if answered := c.answered.Load(); answered != c.head.answered {
		c.head = head{answered: answered}
	}
	if c.handled.Load() {
		return n, err
	}
	if c.head.see(p[:n]); c.head.lines > headerFieldsMax {
		return 0, errTooManyFields
	}
	return n, err
}

func (h *head) see(text []byte) {
	for _, one := range text {
		switch {
		case h.over:
			return
		case one == '\n':
			h.over = h.empty && h.lines > 0
			h.lines, h.empty = h.lines+1, true
		case one != '\r':
			h.empty = false
		}
	}
}

func (c *headConn) handling() (end func()) {
	c.handled.Store(true)
	return func() {
		c.answered.Add(1)
		c.handled.Store(false)
	}
}
