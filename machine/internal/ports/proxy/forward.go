package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/door"
	"github.com/berth-dev/berth/machine/internal/ports/httpwire"
)

const (
	interimMax = 32
	// A short answer is read completely within this time, so that a truncated one can be refused.
	settleTime = 5 * time.Millisecond
)

var errGone = errors.New("the visitor has gone")

func (e *exchange) forward(ctx context.Context) *door.Refusal {
	for mayReuse := true; ; mayReuse = false {
		if refusal := e.connect(ctx, mayReuse); refusal != nil {
			return e.cutOr(refusal)
		}
		e.send()
		response, err := e.head()
		if err == nil {
			return e.answer(response)
		}
		e.upstream.Close()
		// The pooled connection had ended before the app saw the request, so the request is sent again.
		if e.upstream.reused && !e.upstream.read && ctx.Err() == nil {
			continue
		}
		return e.whyNoAnswer(err)
	}
}

// connect uses a pooled connection only for a request that may be repeated, because the app may close it at any time.
func (e *exchange) connect(ctx context.Context, mayReuse bool) *door.Refusal {
	var u *upstream
	if mayReuse && e.request.Framing.Kind == httpwire.NoBody && e.request.Upgrade == "" && isSafe(e.request.Method) {
		u = e.server.options.Pool.take(e.use.Target)
	}
	if u == nil {
		var refusal *door.Refusal
		if u, refusal = dial(ctx, e.use, e.server.options.Times.Write); refusal != nil {
			return refusal
		}
	}
	if refusal := e.use.Ended(); refusal != nil { // the machine has ended, and its address may belong to another one now
		u.Close()
		return refusal
	}
	return e.hold(u)
}

func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

func (e *exchange) head() (*httpwire.Response, error) {
	for range interimMax {
		response, err := httpwire.ReadResponse(e.upstream.reader, e.request.Method)
		if err != nil {
			return nil, err
		}
		switch {
		case response.Status >= 200:
			e.answerIsHere()
			return response, nil
		case response.Status == http.StatusSwitchingProtocols:
			if !isOffered(e.request.Upgrade, response.Upgrade) {
				return nil, httpwire.ErrBadAnswer
			}
			e.answerIsHere()
			return response, nil
		case response.Status == http.StatusContinue && !e.request.Continue:
			continue
		}
		fields := e.forVisitor(response)
		if err := e.visitor.interim(response.Status, response.Phrase, fields); err != nil {
			return nil, errGone
		}
	}
	return nil, httpwire.ErrBadAnswer
}

func (e *exchange) forVisitor(response *httpwire.Response) httpwire.Fields {
	fields := door.ForVisitor(response.Fields)
	e.use.Sent(len("HTTP/1.1 200 \r\n\r\n") + len(response.Phrase) + fields.Bytes())
	return fields
}

func isOffered(offered, chosen string) bool {
	for protocol := range strings.SplitSeq(offered, ",") {
		if chosen != "" && strings.EqualFold(strings.Trim(protocol, " \t"), chosen) {
			return true
		}
	}
	return false
}

func (e *exchange) whyNoAnswer(err error) *door.Refusal {
	refusal := door.Refuse("app_bad_answer")
	switch {
	case isTimeout(err):
		refusal = door.Refuse("app_timeout")
	case errors.Is(err, net.ErrClosed) && e.sending != nil && e.cutOr(nil) == nil:
		<-e.sending.done // sendBody has closed the connection
		if problem := e.bodyProblem(); problem != nil {
			refusal = problem
		}
	}
	e.settle()
	return e.cutOr(refusal)
}

func (e *exchange) answer(response *httpwire.Response) *door.Refusal {
	if response.Status == http.StatusSwitchingProtocols {
		return e.splice(response)
	}
	u, framing := e.upstream, response.Framing
	if framing.Kind == httpwire.FixedBody && int64(u.reader.Buffered()) > framing.Length { // the app sent more than one answer
		return e.noAnswer()
	}
	e.visitor.begin(answerHead{
		status: response.Status, phrase: response.Phrase, fields: e.forVisitor(response), framing: framing, length: response.Length,
		close: e.closes(),
	})
	body := httpwire.NewBody(u.reader, framing)
	from := &settling{Body: body, u: u, short: framing.Kind == httpwire.FixedBody && framing.Length <= bufferBytes}
	readErr, writeErr := pump(counting{from, e.use.Sent}, e.visitor)
	if readErr == nil && writeErr == nil {
		trailers := door.Trailers(body.Trailers())
		e.use.Sent(trailers.Bytes())
		writeErr = e.visitor.finish(trailers)
	}
	if readErr != nil && !e.visitor.started() {
		e.visitor.forget()
		return e.noAnswer()
	}
	if readErr != nil || writeErr != nil {
		e.visitor.kill()
		u.Close()
		e.settle()
		return nil
	}
	e.leave(response.Keep)
	return nil
}

func (e *exchange) noAnswer() *door.Refusal {
	e.upstream.Close()
	e.settle()
	return e.cutOr(door.Refuse("app_bad_answer"))
}

func (e *exchange) leave(keep bool) {
	u := e.upstream
	whole := e.awaitBody()
	if e.release() && keep && whole && u.reader.Buffered() == 0 {
		e.server.options.Pool.put(u)
		return
	}
	u.Close()
}

// settling is a body that waits briefly for its end if it is short, before any byte of the answer is sent.
type settling struct {
	*httpwire.Body
	u     *upstream
	short bool
}

func (s *settling) Waiting() bool {
	if !s.Body.Waiting() {
		return false
	}
	s.u.acknowledge()
	if !s.short {
		return true
	}
	s.short = false
	_ = s.u.SetReadDeadline(time.Now().Add(settleTime))
	err := s.Await()
	_ = s.u.SetReadDeadline(time.Time{})
	return isTimeout(err)
}
