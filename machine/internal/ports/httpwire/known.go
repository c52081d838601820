package httpwire

import "strings"

// Known is a field that this proxy handles itself. Fields of other names are forwarded unchanged.
type Known uint8

const (
	Other Known = iota
	Accept
	Authorization
	Connection
	ContentLength
	Cookie
	Expect
	Forwarded // claims about the visitor's origin
	Host
	HTTP2Settings
	KeepAlive
	Origin
	ProxyConnection
	Referer
	SecFetchSite
	ServiceReason
	ServiceToken
	SetCookie
	TE
	Trailer
	TransferEncoding
	Upgrade
	XForwardedFor
)

var knownNames = map[string]Known{
	"accept":            Accept,
	"authorization":     Authorization,
	"connection":        Connection,
	"content-length":    ContentLength,
	"cookie":            Cookie,
	"expect":            Expect,
	"forwarded":         Forwarded,
	"host":              Host,
	"http2-settings":    HTTP2Settings,
	"keep-alive":        KeepAlive,
	"origin":            Origin,
	"proxy-connection":  ProxyConnection,
	"referer":           Referer,
	"sec-fetch-site":    SecFetchSite,
	"x-service-reason":  ServiceReason,
	"x-service-token":   ServiceToken,
	"set-cookie":        SetCookie,
	"te":                TE,
	"trailer":           Trailer,
	"transfer-encoding": TransferEncoding,
	"upgrade":           Upgrade,
	"x-forwarded-for":   XForwardedFor,
	"x-real-ip":         Forwarded,
}

const (
	longestKnown    = 32
	forwardedPrefix = "x-forwarded-"
)

// knowName treats `_` as `-`, because CGI-like programs cannot distinguish them. A field that is known only in this way
// has no meaning here, and is never passed on.
func knowName(name string) (known Known, twisted bool) {
	if len(name) > longestKnown {
		return Other, false
	}
	var lower [longestKnown]byte
	for i := range len(name) {
		c := name[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case c == '_':
			c, twisted = '-', true
		}
		lower[i] = c
	}
	if known, found := knownNames[string(lower[:len(name)])]; found {
		return known, twisted
	}
	if strings.HasPrefix(string(lower[:len(name)]), forwardedPrefix) {
		return Forwarded, twisted
	}
	return Other, false
}
