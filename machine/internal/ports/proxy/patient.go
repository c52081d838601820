package proxy

import (
	"net"
	"os"
	"sync/atomic"
	"time"
)

// patience renews a deadline rarely, because a new one for each piece would cost more than the piece.
type patience struct {
	set  func(time.Time) error
	wait time.Duration // 0: no deadline
	at   time.Time
}

func (p *patience) renew() {
	if p.wait == 0 {
		return
	}
	if now := time.Now(); now.Sub(p.at) > p.wait/8 {
		p.at = now
		_ = p.set(now.Add(p.wait))
	}
}

type patient struct {
	net.Conn
	reading, writing patience
	hurried          atomic.Bool
	wrote            atomic.Bool // a write happened since this was last cleared
	read             bool        // a read happened since this was last cleared; accessed by the reader only
}

func newPatient(conn net.Conn, write time.Duration) *patient {
	return &patient{Conn: conn, reading: patience{set: conn.SetReadDeadline}, writing: patience{set: conn.SetWriteDeadline, wait: write}}
}

func (p *patient) Read(b []byte) (int, error) {
	p.reading.renew()
	if p.hurried.Load() {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := p.Conn.Read(b)
	p.read = p.read || n > 0
	return n, err
}

func (p *patient) Write(b []byte) (int, error) {
	p.writing.renew()
	p.wrote.Store(true)
	return p.Conn.Write(b)
}

func (p *patient) readWithin(wait time.Duration) {
	if wait == 0 && p.reading.wait != 0 {
		_ = p.SetReadDeadline(time.Time{})
	}
	p.reading.wait, p.reading.at = wait, time.Time{}
}

// hurry ends a concurrent read at once, and later ones until calm.
func (p *patient) hurry() {
	p.hurried.Store(true)
	_ = p.SetReadDeadline(time.Unix(1, 0))
}

func (p *patient) calm() {
	p.hurried.Store(false)
	_ = p.SetReadDeadline(time.Time{})
	p.reading.at = time.Time{}
}
