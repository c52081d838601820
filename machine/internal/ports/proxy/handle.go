package proxy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strconv"

	"github.com/berth-dev/berth/machine/internal/ports/door"
	"github.com/berth-dev/berth/machine/internal/ports/httpwire"
)

func (s *Server) handle(ctx context.Context, request *httpwire.Request, v visitor, public door.Public) *door.Refusal {
	place, known := s.options.Names.Place(request.Host)
	if !known {
		return door.Refuse("host_unknown")
	}
	group := door.ClientGroup(public.Client)
	if !s.requestsBy.add(group, s.options.Bounds.RequestsOfAClient) {
		return door.Refuse("too_many_requests")
	}
	defer s.requestsBy.remove(group)
	e := &exchange{server: s, request: request, visitor: v, place: place, public: public, group: group}
	defer e.leavePlace()
	return e.run(ctx)
}

func (s *Server) writeRefusal(v visitor, request *httpwire.Request, refusal *door.Refusal, closes bool) {
	s.tally.refuse(refusal.Reason)
	var random [16]byte
	_, _ = rand.Read(random[:])
	id := hex.EncodeToString(random[:])
	accept, _ := request.Fields.Only(httpwire.Accept)
	contentType, body := refusal.Page(door.WantsHTML(accept), id)
	fields := httpwire.Fields{
		httpwire.MakeField("Content-Type", contentType),
		httpwire.MakeField("Cache-Control", "no-store"),
		httpwire.MakeField("X-Service-Reason", refusal.Reason),
		httpwire.MakeField("X-Request-Id", id),
		httpwire.MakeField("X-Content-Type-Options", "nosniff"),
		httpwire.MakeField("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"),
	}
	if refusal.Status == http.StatusUnauthorized {
		fields = append(fields, httpwire.MakeField("WWW-Authenticate", `Bearer realm="port"`))
	}
	if refusal.RetryAfterSeconds > 0 {
		fields = append(fields, httpwire.MakeField("Retry-After", strconv.Itoa(refusal.RetryAfterSeconds)))
	}
	head := answerHead{status: refusal.Status, fields: fields, length: int64(len(body)), close: closes}
	if request.Method != http.MethodHead {
		head.framing = httpwire.Framing{Kind: httpwire.FixedBody, Length: int64(len(body))}
	}
	v.begin(head)
	if head.framing.Kind == httpwire.FixedBody {
		_, _ = v.Write([]byte(body))
	}
	if v.finish(nil) != nil {
		v.kill()
	}
}
