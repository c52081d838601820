package proxy

import (
	"errors"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/door"
	"github.com/berth-dev/berth/machine/internal/ports/httpwire"
)

const bodyAfterAnswer = 30 * time.Second

type sending struct {
	done              chan struct{}
	readErr, writeErr error
}

func (e *exchange) send() {
	u := e.upstream
	e.sent = true
	e.writeHead()
	if e.request.Framing.Kind == httpwire.NoBody {
		e.awaitAnswer(u)
		_ = u.writer.Flush() // an error is reported by the read of the answer
		return
	}
	e.sending = &sending{done: make(chan struct{})}
	e.visitor.patience(e.server.options.Times.Body)
	go e.sendBody(u, e.sending)
}

func (e *exchange) writeHead() {
	u := e.upstream
	_, _ = u.writer.WriteString(e.request.Method)
	_, _ = u.writer.WriteString(" ")
	_, _ = u.writer.WriteString(e.target)
	_, _ = u.writer.WriteString(" HTTP/1.1\r\n")
	writeFields(u.writer, door.ForApp(e.request, e.credential, e.public))
	if _, told := e.request.Fields.Only(httpwire.ContentLength); told > 0 {
		writeLength(u.writer, e.request.Framing.Length)
	} else {
		writeFraming(u.writer, e.request.Framing)
	}
	if e.request.Upgrade != "" {
		writeField(u.writer, "Connection", "Upgrade")
		writeField(u.writer, "Upgrade", e.request.Upgrade)
	}
	_, _ = u.writer.WriteString("\r\n")
}

func (e *exchange) awaitAnswer(u *upstream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.headIsHere {
		_ = u.SetReadDeadline(time.Now().Add(e.server.options.Times.Answer))
	}
}

func (e *exchange) answerIsHere() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.headIsHere = true
	_ = e.upstream.SetReadDeadline(time.Time{})
}

func (e *exchange) sendBody(u *upstream, s *sending) {
	defer close(s.done)
	body := e.visitor.body()
	out := &framed{u.writer, e.request.Framing.Kind == httpwire.ChunkedBody}
	s.readErr, s.writeErr = pump(counting{body, e.use.Received}, out)
	if s.readErr != nil {
		u.Close() // a truncated body must not look complete
		return
	}
	if !body.Ended() { // the app closed the connection, perhaps after it answered
		return
	}
	e.bodyHere.Store(true)
	if s.writeErr == nil {
		s.writeErr = out.end(door.Trailers(body.Trailers()))
	}
	e.awaitAnswer(u)
	e.watch()
}

func (e *exchange) settle() {
	if e.sending == nil {
		return
	}
	e.upstream.Close()
	e.visitor.hurry()
	<-e.sending.done
	e.visitor.calm()
}

// awaitBody waits for the end of the request's body, because an app may answer before it has read everything.
func (e *exchange) awaitBody() bool {
	if e.sending == nil {
		return true
	}
	patience := bodyAfterAnswer
	if e.request.Continue && !e.bodyHere.Load() { // the visitor may never send the body
		patience = 0
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-e.sending.done:
	case <-timer.C:
		e.settle()
	}
	return e.sending.readErr == nil && e.sending.writeErr == nil
}

func (e *exchange) bodyProblem() *door.Refusal {
	if e.sending == nil || e.sending.readErr == nil {
		return nil
	}
	var problem *httpwire.Problem
	switch err := e.sending.readErr; {
	case errors.As(err, &problem):
		return &door.Refusal{Status: problem.Status, Reason: problem.Reason, Message: problem.Message}
	case isTimeout(err):
		return door.Refuse("request_timeout")
	default:
		return door.Refuse("bad_request")
	}
}

type counting struct {
	source
	count func(int)
}

func (c counting) Read(p []byte) (int, error) {
	n, err := c.source.Read(p)
	c.count(n)
	return n, err
}
