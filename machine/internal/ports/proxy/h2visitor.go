package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/httpwire"
)

type h2Visitor struct {
	w       http.ResponseWriter
	request *http.Request
	control *http.ResponseController
	source  h2Body
	head    answerHead
	writer  *bufio.Writer // its output goes to commit and write
	begun   atomic.Bool
	killed  atomic.Bool
}

func newH2Visitor(w http.ResponseWriter, r *http.Request) *h2Visitor {
	control := http.NewResponseController(w)
	v := &h2Visitor{w: w, request: r, control: control}
	v.source = h2Body{Reader: r.Body, request: r, reading: patience{set: control.SetReadDeadline}}
	v.source.ended.Store(r.ContentLength == 0)
	v.writer = bufio.NewWriterSize((*h2Out)(v), bufferBytes)
	return v
}

type h2Out h2Visitor

func (o *h2Out) Write(p []byte) (int, error) {
	(*h2Visitor)(o).commit()
	return o.w.Write(p)
}

func (v *h2Visitor) commit() {
	if v.begun.Swap(true) {
		return
	}
	header := v.w.Header()
	for _, field := range v.head.fields {
		header.Add(field.Name, field.Value)
	}
	if v.head.length >= 0 {
		header.Set("Content-Length", strconv.FormatInt(v.head.length, 10))
	}
	if header.Get("Content-Type") == "" {
		header["Content-Type"] = nil // disables the library's guess of a type
	}
	if header.Get("Date") == "" {
		header["Date"] = nil
	}
	v.w.WriteHeader(v.head.status)
}

func (v *h2Visitor) body() source                { return &v.source }
func (v *h2Visitor) begin(head answerHead)       { v.head = head }
func (v *h2Visitor) started() bool               { return v.begun.Load() }
func (v *h2Visitor) forget()                     { v.writer.Reset((*h2Out)(v)) }
func (v *h2Visitor) Write(p []byte) (int, error) { return v.writer.Write(p) }

func (v *h2Visitor) flush() error {
	if err := v.writer.Flush(); err != nil {
		return err
	}
	v.commit()
	return v.control.Flush()
}

func (v *h2Visitor) interim(status int, _ string, fields httpwire.Fields) error {
	if status == http.StatusContinue {
		return nil
	}
	header := v.w.Header()
	for _, field := range fields {
		header.Add(field.Name, field.Value)
	}
	v.w.WriteHeader(status)
	clear(header)
	return nil
}

func (v *h2Visitor) finish(trailers httpwire.Fields) error {
	if err := v.writer.Flush(); err != nil {
		return err
	}
	v.commit()
	for _, field := range trailers {
		v.w.Header().Add(http.TrailerPrefix+field.Name, field.Value)
	}
	return nil
}

// kill aborts the answer. Blocked writes return, and the handler ends with the panic that the library expects.
func (v *h2Visitor) kill() {
	v.killed.Store(true)
	_ = v.control.SetWriteDeadline(time.Unix(1, 0))
}

func (v *h2Visitor) watch(gone func()) func() {
	stop := context.AfterFunc(v.request.Context(), gone)
	return func() { stop() }
}

func (v *h2Visitor) patience(each time.Duration)       { v.source.reading.wait = each }
func (v *h2Visitor) hurry()                            { _ = v.control.SetReadDeadline(time.Unix(1, 0)) }
func (v *h2Visitor) calm()                             {}
func (v *h2Visitor) splice() (*patient, *bufio.Reader) { return nil, nil }

// h2Body cannot report buffered bytes without a read, so Waiting is true until the end.
type h2Body struct {
	io.Reader
	request *http.Request
	reading patience
	ended   atomic.Bool
}

func (b *h2Body) Read(p []byte) (int, error) {
	b.reading.renew()
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended.Store(true)
	}
	return n, err
}

func (b *h2Body) Ended() bool   { return b.ended.Load() }
func (b *h2Body) Waiting() bool { return !b.Ended() }
func (b *h2Body) Await() error  { return errors.ErrUnsupported } // only a read can wait, so the caller reads

func (b *h2Body) Trailers() (fields httpwire.Fields) {
	for name, values := range b.request.Trailer {
		for _, value := range values {
			fields = append(fields, httpwire.MakeField(name, value))
		}
	}
	return fields
}
