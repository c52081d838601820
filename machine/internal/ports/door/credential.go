package door

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/machine/internal/ports/httpwire"
)

type Kind string

const (
	Token    Kind = "token"
	Cookie   Kind = "cookie"
	Callback Kind = "callback"
	Link     Kind = "link"
)

// Shown is the result of Show. Target is the request's target without the credential, for the app.
type Shown struct {
	Credentials []Credential // to be tried in this order
	Target      string
}

const (
	// CookieName's prefix makes browsers accept the cookie only from this exact host, over TLS.
	CookieName = "__Host-berth-port"
	// PlainCookieName is for browsers without TLS, which refuse the __Host- prefix.
	PlainCookieName = "berth-port"

	tokenPrefix    = "sfp_"
	cookiePrefix   = "sfc_"
	linkPrefix     = "sfl_"
	callbackPrefix = "sfcb_"
	secretLength   = 43
	reservedPath   = "/__service"
	callbackPath   = reservedPath + "/callback/"
	linkPath       = reservedPath + "/link"
	cookiesTried   = 32 // without TLS, another workspace may set more cookies of this name, so this many are tried
)

// Show finds the credentials of a request. It looks in a platform path first, then in headers, then in cookies.
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

// The rest of the path after the secret is the app's path, byte for byte.
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

// An Authorization header without our token belongs to the app.
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

// A text of another shape is refused here, without a question to the cell.
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

func withoutCookie(value string) string {
	if !strings.Contains(value, PlainCookieName) { // both cookie names end with this text
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

func setsOurCookie(value string) bool {
	name, _, _ := strings.Cut(value, "=")
	name = strings.Trim(name, " \t")
	return name == CookieName || name == PlainCookieName
}

// SetCookie sets a cookie for this host only. Browsers send it from other sites only when a person follows a link.
func SetCookie(public Public, value string, maxAgeSeconds int) string {
	rest := "=" + value + "; Path=/; Max-Age=" + strconv.Itoa(maxAgeSeconds) + "; HttpOnly; SameSite=Lax"
	if public.Scheme == "https" {
		return CookieName + rest + "; Secure"
	}
	return PlainCookieName + rest
}

// SafePath returns "/" for a path that would leave this host, so a redirect stays here whatever the cell sends.
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
