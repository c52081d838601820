package proxy

import (
	"bufio"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/door"
	"github.com/berth-dev/berth/machine/internal/ports/httpwire"
)

func (e *exchange) splice(response *httpwire.Response) *door.Refusal {
	u := e.upstream
	defer u.Close()
	if !e.awaitBody() {
		e.visitor.kill()
		return nil
	}
	e.finishWatching()
	conn, reader := e.visitor.splice()
	if conn == nil {
		return door.Refuse("app_bad_answer")
	}
	e.visitor.begin(answerHead{status: response.Status, phrase: response.Phrase, fields: e.forVisitor(response), length: -1, upgrade: response.Upgrade})
	if e.visitor.flush() != nil {
		return nil
	}
	toApp := make(chan struct{})
	go func() {
		defer close(toApp)
		e.oneWay(counting{raw{reader}, e.use.Received}, &framed{Writer: u.writer}, u.patient, conn)
	}()
	e.oneWay(counting{raw{u.reader}, e.use.Sent}, e.toVisitor(response.Upgrade), conn, u.patient)
	<-toApp
	conn.Close()
	return nil
}

// oneWay copies one direction. After its end the other direction may go on for a while.
func (e *exchange) oneWay(from source, to sink, receiver, sender *patient) {
	_, writeErr := pump(from, to)
	if writeErr != nil || to.flush() != nil {
		receiver.Close()
		sender.Close()
		return
	}
	if half, ok := receiver.Conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = receiver.SetReadDeadline(time.Now().Add(e.server.options.Times.HalfOpen))
}

type raw struct{ *bufio.Reader }

func (r raw) Ended() bool               { return false }
func (r raw) Waiting() bool             { return r.Buffered() == 0 }
func (r raw) Trailers() httpwire.Fields { return nil }

func (r raw) Await() error {
	_, err := r.Peek(1)
	return err
}

func (e *exchange) finishWatching() {
	e.mu.Lock()
	unwatch := e.unwatch
	e.unwatch = func() {}
	e.mu.Unlock()
	if unwatch != nil {
		unwatch()
	}
}
