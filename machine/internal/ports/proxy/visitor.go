package proxy

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/httpwire"
)

type visitor interface {
	sink
	body() source
	interim(status int, phrase string, fields httpwire.Fields) error
	// close in the head means that no request follows on this connection.
	begin(head answerHead)
	finish(trailers httpwire.Fields) error
	started() bool
	forget()
	// kill aborts the answer, so that a truncated body does not look complete.
	kill()
	// watch calls gone when the visitor has gone. gone may be called until stop has returned.
	watch(gone func()) (stop func())
	patience(each time.Duration)
	hurry()
	calm()
	// splice returns nil if the connection cannot be spliced.
	splice() (*patient, *bufio.Reader)
}

type answerHead struct {
	status  int
	phrase  string
	fields  httpwire.Fields
	framing httpwire.Framing
	length  int64  // of Content-Length; -1: absent
	upgrade string // protocol of the connection after an upgrade
	close   bool
}

// When an exchange lasts longer than this, the visitor's presence is checked.
const watchAfter = time.Second

type plain struct {
	conn   *patient
	raw    net.Conn // the connection below TLS
	reader *bufio.Reader
	writer *bufio.Writer
	source *httpwire.Body
	minor  int
	out    framed
	ended  atomic.Bool // the connection is no longer HTTP, or nothing follows on it
}

func newPlain(conn *patient, raw net.Conn, reader *bufio.Reader, writer *bufio.Writer, request *httpwire.Request) *plain {
	conn.wrote.Store(false)
	return &plain{conn: conn, raw: raw, reader: reader, writer: writer, source: httpwire.NewBody(reader, request.Framing), minor: request.Minor}
}

func (v *plain) body() source                { return v.source }
func (v *plain) started() bool               { return v.conn.wrote.Load() }
func (v *plain) forget()                     { v.writer.Reset(v.conn) }
func (v *plain) Write(p []byte) (int, error) { return v.out.Write(p) }
func (v *plain) flush() error                { return v.writer.Flush() }

func (v *plain) interim(status int, phrase string, fields httpwire.Fields) error {
	if v.minor == 0 {
		return nil
	}
	writeStatus(v.writer, status, phrase)
	writeFields(v.writer, fields)
	_, _ = v.writer.WriteString("\r\n")
	err := v.flush()
	v.conn.wrote.Store(false) // this write was not part of the answer itself
	return err
}

func (v *plain) begin(head answerHead) {
	framing := head.framing
	if framing.Kind == httpwire.UntilClose {
		framing.Kind = httpwire.ChunkedBody
	}
	if framing.Kind == httpwire.ChunkedBody && v.minor == 0 {
		framing.Kind = httpwire.UntilClose
	}
	writeStatus(v.writer, head.status, head.phrase)
	writeFields(v.writer, head.fields)
	if head.length >= 0 {
		writeLength(v.writer, head.length)
	} else {
		writeFraming(v.writer, framing)
	}
	switch {
	case head.upgrade != "":
		writeField(v.writer, "Connection", "Upgrade")
		writeField(v.writer, "Upgrade", head.upgrade)
	case head.close || framing.Kind == httpwire.UntilClose:
		v.ended.Store(true)
		writeField(v.writer, "Connection", "close")
	}
	_, _ = v.writer.WriteString("\r\n")
	v.out = framed{v.writer, framing.Kind == httpwire.ChunkedBody}
}

func writeStatus(to *bufio.Writer, status int, phrase string) {
	if phrase == "" {
		phrase = http.StatusText(status)
	}
	_, _ = to.WriteString("HTTP/1.1 ")
	_, _ = to.Write([]byte{byte('0' + status/100), byte('0' + status/10%10), byte('0' + status%10), ' '})
	_, _ = to.WriteString(phrase)
	_, _ = to.WriteString("\r\n")
}

func (v *plain) finish(trailers httpwire.Fields) error { return v.out.end(trailers) }

func (v *plain) kill() {
	v.ended.Store(true)
	if tcp, ok := v.raw.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // reset the connection: a normal end would look complete if the length is unknown
	}
	v.raw.Close()
}

func (v *plain) patience(each time.Duration) { v.conn.readWithin(each) }
func (v *plain) hurry()                      { v.conn.hurry() }
func (v *plain) calm()                       { v.conn.calm() }

// watch peeks at the connection, so bytes of a next request remain in the buffer.
func (v *plain) watch(gone func()) (stop func()) {
	done := make(chan struct{})
	v.conn.readWithin(0)
	timer := time.AfterFunc(watchAfter, func() {
		defer close(done)
		if _, err := v.reader.Peek(1); err != nil && !isTimeout(err) {
			gone()
		}
	})
	return func() {
		if !timer.Stop() {
			v.hurry()
			<-done
			v.calm()
		}
	}
}

func (v *plain) splice() (*patient, *bufio.Reader) {
	v.ended.Store(true)
	v.conn.readWithin(0)
	return v.conn, v.reader
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
