package proxy

import (
	"context"
	"net/http"

	"github.com/berth-dev/berth/machine/internal/ports/door"
	"github.com/berth-dev/berth/machine/internal/ports/httpwire"
)

func (e *exchange) followLink(ctx context.Context, credential door.Credential) *door.Refusal {
	if e.request.Method != http.MethodGet && e.request.Method != http.MethodHead {
		return &door.Refusal{Status: http.StatusMethodNotAllowed, Reason: "method_not_allowed", Message: "A signed link is opened with GET."}
	}
	ctx, cancel := context.WithTimeout(ctx, e.server.options.Times.Start)
	defer cancel()
	redirect, refusal := e.server.options.Link.Follow(ctx, e.question(credential), e)
	if refusal != nil {
		return refusal
	}
	e.visitor.begin(answerHead{
		status: http.StatusSeeOther,
		fields: httpwire.Fields{
			httpwire.MakeField("Location", door.SafePath(redirect.Path)),
			httpwire.MakeField("Set-Cookie", door.SetCookie(e.public, redirect.Cookie, redirect.MaxAgeSeconds)),
			httpwire.MakeField("Cache-Control", "no-store"),
			httpwire.MakeField("Referrer-Policy", "no-referrer"),
		},
		close: e.closes(),
	})
	if err := e.visitor.finish(nil); err != nil {
		e.visitor.kill()
	}
	return nil
}
