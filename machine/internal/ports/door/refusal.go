package door

import (
	"encoding/json"
	"html"
	"net/http"
	"strconv"
	"strings"
)

const (
	reasonCredentialMissing = "credential_missing"
	reasonCredentialInvalid = "credential_invalid"
	reasonPathReserved      = "path_reserved"
	reasonHostUnknown       = "host_unknown"
	reasonOriginRefused     = "origin_refused"
)

var refusals = map[string]Refusal{
	reasonHostUnknown:       {404, reasonHostUnknown, "No port of a workspace has this name.", 0},
	reasonCredentialMissing: {401, reasonCredentialMissing, "This port is private: a port token, a signed link or a callback URL is needed.", 0},
	reasonCredentialInvalid: {401, reasonCredentialInvalid, "This credential does not open this port.", 0},
	reasonPathReserved:      {404, reasonPathReserved, "Paths below /__service/ are the platform's, and it has nothing at this one.", 0},
	reasonOriginRefused:     {403, reasonOriginRefused, "With a cookie, this is for pages of the workspace alone. A program uses a port token.", 0},
	"bad_request":           {400, "bad_request", "The request cannot be understood.", 0},
	"request_timeout":       {408, "request_timeout", "The request did not arrive in time.", 0},
	"too_many_requests":     {429, "too_many_requests", "There are too many requests from here or for this port.", 1},
	"app_unreachable":       {502, "app_unreachable", "The workspace runs, and its app could not be reached.", 1},
	"app_bad_answer":        {502, "app_bad_answer", "The app answered something that is not HTTP, or ended in the middle.", 0},
	"app_listens_elsewhere": {502, "app_listens_elsewhere", "The app listens on addresses that no visitor reaches. It has to listen on 0.0.0.0.", 0},
	"unavailable":           {503, "unavailable", "The service cannot decide this right now.", 1},
	"app_not_listening":     {504, "app_not_listening", "The workspace runs, and nothing listens on this port. An app has to listen on 0.0.0.0.", 1},
	"app_timeout":           {504, "app_timeout", "The app did not answer in time.", 0},
	"starting_timeout":      {504, "starting_timeout", "The workspace did not start in time.", 1},
}

func refuse(reason string) *Refusal { return Refuse(reason) }

func Refuse(reason string) *Refusal {
	refusal, known := refusals[reason]
	if !known {
		panic("no refusal has the reason " + reason)
	}
	return &refusal
}

var codes = map[int]struct {
	code      string
	retryable bool
}{
	400: {"bad_request", false},
	401: {"unauthenticated", false},
	402: {"entitlement_required", false},
	403: {"forbidden", false},
	404: {"not_found", false},
	405: {"bad_request", false},
	408: {"timeout", true},
	409: {"conflict", false},
	429: {"rate_limited", true},
	431: {"bad_request", false},
	500: {"internal_error", false},
	502: {"dependency_unavailable", true},
	503: {"service_unavailable", true},
	504: {"timeout", true},
}

// Page returns HTML if the request accepts it, otherwise JSON.
func (r *Refusal) Page(wantsHTML bool, requestID string) (contentType, body string) {
	if wantsHTML {
		return "text/html; charset=utf-8", r.html(requestID)
	}
	return "application/json", r.envelope(requestID)
}

func (r *Refusal) envelope(requestID string) string {
	word, known := codes[r.Status]
	if !known {
		word.code = "internal_error"
	}
	text, err := json.Marshal(map[string]any{"error": map[string]any{
		"code": word.code, "message": r.Message, "request_id": requestID, "retryable": word.retryable, "details": map[string]any{"reason": r.Reason},
	}})
	if err != nil {
		panic(err) // impossible, because all fields are strings
	}
	return string(text)
}

func (r *Refusal) html(requestID string) string {
	title := strconv.Itoa(r.Status) + " " + http.StatusText(r.Status)
	return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>` + title +
		`</title><style>body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:15vh auto;padding:0 1rem;color:#222;background:#fff}` +
		`small{color:#666}@media(prefers-color-scheme:dark){body{color:#ddd;background:#111}small{color:#999}}</style></head><body><h1>` + title +
		`</h1><p>` + html.EscapeString(r.Message) + `</p><p><small>` + html.EscapeString(r.Reason) + ` · ` + html.EscapeString(requestID) +
		"</small></p></body></html>\n"
}

func WantsHTML(accept string) bool { return strings.Contains(accept, "text/html") }
