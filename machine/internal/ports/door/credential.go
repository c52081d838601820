package door

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/machine/internal/ports/httpwire"
)

// Kind is how a credential was shown.
type Kind string

const (
	Token    Kind = "token"
	Cookie   Kind = "cookie"
	Callback Kind = "callback"
	Link     Kind = "link"
)

// Credential is one right that a request shows. Whether it is one is the cell's to say.
type Credential struct {
	Kind  Kind   `json:"kind"`
	Value string `json:"value"`
}

// Shown is what a request showed, and the target that remains for the app.
type Shown struct {
	Credentials []Credential // to be tried in this order
	Target      string
}

const (
	// CookieName is one that a browser takes from this very host alone, and only over TLS.
	CookieName = "__Host-berth-port"
	// PlainCookieName is for a service without TLS: browsers refuse the other one there.
	PlainCookieName = "berth-port"

	tokenPrefix    = "sfp_"
	cookiePrefix   = "sfc_"
	linkPrefix     = "sfl_"
	callbackPrefix = "sfcb_"
	secretLength   = 43
	reservedPath   = "/__service"
	callbackPath   = reservedPath + "/callback/"
	linkPath       = reservedPath + "/link"
	cookiesTried   = 32 // a neighbour may set more of the name where there is no TLS; one that is right among these is found
)

// Show finds what a request shows: a path of the platform first, then a header, then cookies.
func Show(request *httpwire.Request, cookieName string) (Shown, *Refusal) {
	if isReserved(request.Target) {
		return showByPath(request.Target)
	}
	shown := Shown{Target: request.Target}
	if token, found := showToken(request.Fields); found {
		if !isSecret(token, tokenPrefix) {
			return shown, refuse(reasonCredentialInvalid)
		}
		shown.Credentials = []Credential{{Token, token}}
		return shown, nil
	}
	for _, value := range cookieValues(request.Fields, cookieName) {
		shown.Credentials = append(shown.Credentials, Credential{Cookie, value})
	}
	if len(shown.Credentials) == 0 {
		return shown, refuse(reasonCredentialMissing)
	}
	return shown, nil
}

func isReserved(target string) bool {
	rest, found := strings.CutPrefix(target, reservedPath)
	return found && (rest == "" || rest[0] == '/' || rest[0] == '?')
}

func showByPath(target string) (Shown, *Refusal) {
	if rest, found := strings.CutPrefix(target, callbackPath); found {
		return showCallback(rest)
	}
	path, query, _ := strings.Cut(target, "?")
	if path != linkPath {
		return Shown{}, refuse(reasonPathReserved)
	}
	values, err := url.ParseQuery(query)
	if err != nil || len(values["t"]) != 1 || !isSecret(values.Get("t"), linkPrefix) {
		return Shown{}, refuse(reasonCredentialInvalid)
	}
	return Shown{Credentials: []Credential{{Link, values.Get("t")}}}, nil
}

// showCallback: what follows the secret is the app's path, byte for byte.
func showCallback(rest string) (Shown, *Refusal) {
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	secret, target := rest[:end], rest[end:]
	if !isSecret(secret, callbackPrefix) {
		return Shown{}, refuse(reasonCredentialInvalid)
	}
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	return Shown{[]Credential{{Callback, secret}}, target}, nil
}

// showToken: the header that is only for it comes first. An Authorization that holds anything else is the app's.
func showToken(fields httpwire.Fields) (string, bool) {
	if token, count := fields.Only(httpwire.ServiceToken); count > 0 {
		return token, true
	}
	for _, field := range fields {
		if field.Known == httpwire.Authorization && !field.Twisted {
			if token, ours := bearerOfOurs(field.Value); ours {
				return token, true
			}
		}
	}
	return "", false
}

func bearerOfOurs(value string) (string, bool) {
	scheme, token, _ := strings.Cut(value, " ")
	token = strings.Trim(token, " \t")
	return token, strings.EqualFold(scheme, "bearer") && strings.HasPrefix(token, tokenPrefix)
}

// isSecret knows the shape of all secrets of ours: what has another one is refused without asking.
func isSecret(text, prefix string) bool {
	if !strings.HasPrefix(text, prefix) || len(text) != len(prefix)+secretLength {
		return false
	}
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// cookieValues are those that may be a cookie of ours, each once.
func cookieValues(fields httpwire.Fields, name string) (values []string) {
	for _, field := range fields {
		if field.Known != httpwire.Cookie || field.Twisted {
			continue
		}
		for pair := range strings.SplitSeq(field.Value, ";") {
			key, value, _ := strings.Cut(strings.Trim(pair, " \t"), "=")
			if key != name || !isSecret(value, cookiePrefix) || slices.Contains(values, value) {
				continue
			}
			if values = append(values, value); len(values) == cookiesTried {
				return values
			}
		}
	}
	return values
}

// withoutCookie drops our cookies from a Cookie header and leaves every other byte of it.
func withoutCookie(value string) string {
	if !strings.Contains(value, PlainCookieName) { // it is the end of both names
		return value
	}
	var kept []string
	for pair := range strings.SplitSeq(value, ";") {
		key, _, _ := strings.Cut(strings.Trim(pair, " \t"), "=")
		if key != CookieName && key != PlainCookieName {
			kept = append(kept, pair)
		}
	}
	return strings.Trim(strings.Join(kept, ";"), " \t")
}

// setsOurCookie: an app may not take the place of the platform's cookie.
func setsOurCookie(value string) bool {
	name, _, _ := strings.Cut(value, "=")
	name = strings.Trim(name, " \t")
	return name == CookieName || name == PlainCookieName
}

// SetCookie is the header that a good signed link is exchanged for: for this host alone, and for no page of another site but one that
// somebody follows a link from.
func SetCookie(public Public, value string, maxAgeSeconds int) string {
	rest := "=" + value + "; Path=/; Max-Age=" + strconv.Itoa(maxAgeSeconds) + "; HttpOnly; SameSite=Lax"
	if public.Scheme == "https" {
		return CookieName + rest + "; Secure"
	}
	return PlainCookieName + rest
}

// SafePath is a path that leads to this host and nowhere else, whatever the cell says.
func SafePath(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.HasPrefix(path, "/\\") {
		return "/"
	}
	for i := range len(path) {
		if path[i] <= ' ' || path[i] >= 0x7f {
			return "/"
		}
	}
	return path
}
