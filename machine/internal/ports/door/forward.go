package door

import (
	"net/netip"
	"strings"

	"github.com/berth-dev/berth/machine/internal/ports/httpwire"
)

// Public is how the visitor reached this service.
type Public struct {
	Scheme string // https or http
	Client netip.Addr
}

// ForApp are the fields that the app gets: those of the visitor in their order, without the platform's credentials, without what
// concerns this connection alone and without what the visitor says about whence it comes, and then what is true about that. Framing
// is for the writer to add.
func ForApp(request *httpwire.Request, credential Credential, public Public) httpwire.Fields {
	fields := make(httpwire.Fields, 0, len(request.Fields)+4)
	named := namedByConnection(request.Fields)
	for _, field := range request.Fields {
		if field.Known == httpwire.Other && !isNamed(named, field.Name) && !strings.Contains(field.Value, credential.Value) {
			fields = append(fields, field)
			continue
		}
		if field.Known != httpwire.Other && !field.Twisted {
			fields = appendKnown(fields, field, request, named, credential)
		}
	}
	return append(fields,
		httpwire.MakeField("X-Forwarded-For", public.Client.String()),
		httpwire.MakeField("X-Forwarded-Proto", public.Scheme),
		httpwire.MakeField("X-Forwarded-Host", request.Host),
	)
}

func appendKnown(fields httpwire.Fields, field httpwire.Field, request *httpwire.Request, named []string, credential Credential) httpwire.Fields {
	switch field.Known {
	case httpwire.Host, httpwire.Expect:
		return append(fields, field)
	case httpwire.TE: // trailers are passed on; other codings are not asked for
		if strings.Contains(strings.ToLower(field.Value), "trailers") {
			field.Value = "trailers"
			return append(fields, field)
		}
	case httpwire.Authorization:
		if _, ours := bearerOfOurs(field.Value); ours {
			return fields
		}
	case httpwire.Cookie:
		if field.Value = withoutCookie(field.Value); field.Value == "" {
			return fields
		}
	case httpwire.Referer:
		if field.Value = withoutSecrets(field.Value, request.Host); field.Value == "" {
			return fields
		}
	}
	switch field.Known {
	case httpwire.Authorization, httpwire.Cookie, httpwire.Referer, httpwire.Accept, httpwire.Origin, httpwire.SecFetchSite,
		httpwire.SetCookie, httpwire.Trailer:
		if !isNamed(named, field.Name) && !strings.Contains(field.Value, credential.Value) {
			return append(fields, field)
		}
	}
	return fields
}

// namedByConnection are the fields that were meant for this hop alone.
func namedByConnection(fields httpwire.Fields) (named []string) {
	for _, field := range fields {
		if field.Known != httpwire.Connection || field.Twisted {
			continue
		}
		for name := range strings.SplitSeq(field.Value, ",") {
			name = strings.Trim(name, " \t")
			if name != "" && !strings.EqualFold(name, "close") && !strings.EqualFold(name, "keep-alive") && !strings.EqualFold(name, "upgrade") {
				named = append(named, name)
			}
		}
	}
	return named
}

func isNamed(named []string, name string) bool {
	for _, each := range named {
		if strings.EqualFold(each, name) {
			return true
		}
	}
	return false
}

// withoutSecrets makes of a Referer what the app would have seen of that page's URL.
func withoutSecrets(referer, host string) string {
	_, rest, found := strings.Cut(referer, "://")
	if !found {
		return referer
	}
	at := strings.IndexByte(rest, '/')
	if at < 0 || !isReserved(rest[at:]) {
		return referer
	}
	shown, refusal := showByPath(rest[at:])
	if refusal != nil || shown.Target == "" || rest[:at] != host {
		return ""
	}
	return referer[:len(referer)-len(rest)] + rest[:at] + shown.Target
}

// TargetForApp drops parameters of the query that hold the credential itself. Everything else stays as it is, byte for byte.
func TargetForApp(target string, credential Credential) string {
	path, query, found := strings.Cut(target, "?")
	if !found || !strings.Contains(query, credential.Value) {
		return target
	}
	var kept []string
	for part := range strings.SplitSeq(query, "&") {
		if !strings.Contains(part, credential.Value) {
			kept = append(kept, part)
		}
	}
	if len(kept) == 0 {
		return path
	}
	return path + "?" + strings.Join(kept, "&")
}

// ForVisitor are the fields of an app's answer that the visitor gets.
func ForVisitor(fields httpwire.Fields) httpwire.Fields {
	named := namedByConnection(fields)
	kept := make(httpwire.Fields, 0, len(fields)+1)
	for _, field := range fields {
		switch field.Known {
		case httpwire.ServiceReason, httpwire.Connection, httpwire.KeepAlive, httpwire.ProxyConnection, httpwire.TE,
			httpwire.TransferEncoding, httpwire.Upgrade, httpwire.ContentLength, httpwire.HTTP2Settings:
			continue
		case httpwire.SetCookie:
			if setsOurCookie(field.Value) {
				continue
			}
		}
		if !isNamed(named, field.Name) {
			kept = append(kept, field)
		}
	}
	return kept
}

// Trailers are those that may follow a body in either direction: none that a head is judged by.
func Trailers(fields httpwire.Fields) httpwire.Fields {
	kept := make(httpwire.Fields, 0, len(fields))
	for _, field := range fields {
		if field.Known == httpwire.Other {
			kept = append(kept, field)
		}
	}
	return kept
}

// CheckOrigin refuses a request of a page that may not use this port's cookie. All ports are of one site to a browser, so the browser adds
// the cookie to requests of other workspaces' pages. A page of another origin may open no WebSocket. A write needs proof that it is none
// of another workspace's page: a page hides its origin by `no-referrer`, which makes it `null`, so an origin that cannot be read is no proof.
func (n Names) CheckOrigin(request *httpwire.Request, place Place, public Public) *Refusal {
	origin, origins := request.Fields.Only(httpwire.Origin)
	switch {
	case request.Upgrade != "":
		if origins == 1 && origin == public.Scheme+"://"+request.Host {
			return nil
		}
	case request.Method == "GET", request.Method == "HEAD", request.Method == "OPTIONS":
		return nil
	case origins <= 1 && (isOwnPage(request.Fields) || n.isOfWorkspace(origin, request.Host, place, public)):
		return nil
	}
	return refuse(reasonOriginRefused)
}

// isOwnPage: browsers say it, and no page can change it. `none` is a person's own doing, such as a bookmark.
func isOwnPage(fields httpwire.Fields) bool {
	site, sites := fields.Only(httpwire.SecFetchSite)
	return sites == 1 && (site == "same-origin" || site == "none")
}

// isOfWorkspace says whether an origin is a port of the workspace, under the scheme and the port number by which this request came. Apps
// use several ports of their workspace together.
func (n Names) isOfWorkspace(origin, host string, place Place, public Public) bool {
	name, found := strings.CutPrefix(origin, public.Scheme+"://")
	from, ours := n.Place(name)
	return found && ours && from.HostID == place.HostID && publicPort(name) == publicPort(host)
}

func publicPort(host string) string {
	_, port, _ := strings.Cut(host, ":")
	return port
}
