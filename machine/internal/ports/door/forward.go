package door

import (
	"net/netip"
	"strings"

	"github.com/berth-dev/berth/machine/internal/ports/httpwire"
)

type Public struct {
	Scheme string
	Client netip.Addr
}

// ForApp returns the fields for the app: the visitor's in order, without credentials and hop-by-hop fields, and with
// correct claims about the origin. The caller adds the framing.
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
	case httpwire.TE: // "trailers" is passed on; other codings are not requested
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

// withoutSecrets replaces a Referer with a credential by the URL that the app would have seen.
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

// TargetForApp removes parameters that contain the credential. All other bytes are unchanged.
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

// Trailers keeps only unknown fields, because trailers must not change the meaning of the head.
func Trailers(fields httpwire.Fields) httpwire.Fields {
	kept := make(httpwire.Fields, 0, len(fields))
	for _, field := range fields {
		if field.Known == httpwire.Other {
			kept = append(kept, field)
		}
	}
	return kept
}

// CheckOrigin protects the cookie: browsers treat all ports as one site, and so add it to requests of other workspaces'
// pages. A WebSocket needs the same origin; a write needs proof that the page is of the same workspace. `no-referrer`
// makes the origin `null`, so an unreadable origin is no proof.
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

// isOwnPage trusts Sec-Fetch-Site, which browsers set and pages cannot. `none` is a user's action, such as a bookmark.
func isOwnPage(fields httpwire.Fields) bool {
	site, sites := fields.Only(httpwire.SecFetchSite)
	return sites == 1 && (site == "same-origin" || site == "none")
}

// isOfWorkspace accepts all ports of the workspace, because apps use several of them together.
func (n Names) isOfWorkspace(origin, host string, place Place, public Public) bool {
	name, found := strings.CutPrefix(origin, public.Scheme+"://")
	from, ours := n.Place(name)
	return found && ours && from.HostID == place.HostID && publicPort(name) == publicPort(host)
}

func publicPort(host string) string {
	_, port, _ := strings.Cut(host, ":")
	return port
}
