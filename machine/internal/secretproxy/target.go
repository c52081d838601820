package secretproxy

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/machine/internal/egress"
)

// isForHost refuses targets with a host, which only clients of a forward proxy send. Servers prefer that host to the
// Host field (RFC 9112, 3.2.2), so the request could reach another tenant of the server.
func isForHost(r *http.Request) bool {
	return strings.HasPrefix(r.RequestURI, "/") || r.RequestURI == "*" && r.Method == http.MethodOptions
}

// authorityOf returns the host for the request, or false if a part of the request names another host.
func authorityOf(r *http.Request, name string, port int) (string, bool) {
	authority, ok := sameHost(r.Host, name, port)
	for _, also := range r.Header["Host"] { // HTTP/2 may send it in addition to :authority
		_, same := sameHost(also, name, port)
		ok = ok && same
	}
	return authority, ok
}

func sameHost(asked, name string, port int) (string, bool) {
	given, withPort := asked, ""
	if host, number, err := net.SplitHostPort(asked); err == nil {
		given, withPort = host, number
	}
	canonical, ok := egress.Canonical(given)
	switch {
	case !ok || canonical != name:
		return "", false
	case withPort == "":
		return name, true
	}
	return net.JoinHostPort(name, withPort), withPort == strconv.Itoa(port)
}

func targetAt(r *http.Request, name string, port int) *url.URL {
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(name, strconv.Itoa(port)), Path: r.URL.Path, RawPath: r.URL.RawPath,
		RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
}

// dropHosts removes fields by which front ends may route. A workspace is a client: nothing was forwarded to it.
func dropHosts(header http.Header) {
	for name := range header {
		// Some servers treat an underscore as a hyphen, so both are removed.
		switch said := strings.ReplaceAll(strings.ToLower(name), "_", "-"); said {
		case "host", "forwarded", "x-host", "x-original-host", "x-http-host-override", "x-original-url", "x-rewrite-url":
			delete(header, name)
		default:
			if strings.HasPrefix(said, "x-forwarded-") && said != "x-forwarded-for" {
				delete(header, name)
			}
		}
	}
}
