package secretproxy

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync/atomic"
	"time"
)

// RefusedHeader is set in answers of the proxy itself, with the reason.
const RefusedHeader = "Berth-Secrets-Refused"

const (
	refusedUnknown     = "secrets_unavailable" // the cell does not answer at the moment
	refusedUnbound     = "not_bound"           // the secret was unbound since the connection began
	refusedHost        = "another_host"        // the request is for another host than the connection
	refusedValue       = "value_not_sendable"  // the value is not valid in a header, or the head would get too large
	refusedUntrusted   = "server_not_trusted"  // the server's certificate is not trusted
	refusedUnreachable = "server_unreachable"
	refusedMethod      = "method_not_supported"
	refusedLoad        = "too_much_at_once"
)

var explained = map[string]string{
	refusedUnknown:     "Which secrets go into requests is not known at the moment. The request was not sent; try again",
	refusedUnbound:     "No secret of the workspace goes to this host any more. The request was not sent",
	refusedHost:        "The request names another host than its connection. It was not sent",
	refusedValue:       "The value of a secret cannot stand in a request, or the request would be too large with it. It was not sent",
	refusedUntrusted:   "The certificate of the server is not one of this host that is trusted. No secret was sent to it",
	refusedUnreachable: "The server cannot be reached, or broke the connection",
	refusedLoad:        "The workspace has too many requests or connections to hosts of secrets at a time. The request was not sent; try again",
	refusedMethod:      "CONNECT is not passed on to hosts of secrets",
}

func refuse(w http.ResponseWriter, status int, reason string) {
	w.Header().Set(RefusedHeader, reason)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	body := map[string]any{"error": map[string]string{"code": reason, "message": "Berth: " + explained[reason]}}
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has gone
}

type putKey struct{}

type putting struct {
	target    *url.URL
	authority string
	secrets   []placed // cleared after use, because a request may last long and values must not remain in memory
	decided   time.Time
	sum       [sha256.Size]byte // hash of the secrets
	stale     atomic.Bool
}

func (p *Proxy) handle(w http.ResponseWriter, r *http.Request) {
	f, ok := r.Context().Value(flowKey{}).(*flow)
	if !ok {
		refuse(w, http.StatusInternalServerError, refusedUnknown)
		return
	}
	if h, ok := r.Context().Value(headKey{}).(*headConn); ok {
		defer h.handling()()
	}
	holds := load{requests: 1, headBytes: sizeOf(r.Header, r.RequestURI)}
	if !p.budget.take(f, holds) {
		refuseLoad(w)
		return
	}
	defer func() { p.budget.give(f, holds) }()
	endTurn, ok := f.awaitTurn(r.Context())
	if !ok {
		refuseLoad(w)
		return
	}
	defer endTurn()
	port := int(f.to.Port())
	decided := time.Now()
	said, err := p.answers.of(r.Context(), f.of)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, refusedUnknown)
		return
	}
	secrets := said.placedAt(f.name, port)
	switch {
	case len(secrets) == 0:
		refuse(w, http.StatusForbidden, refusedUnbound)
		return
	case r.Method == http.MethodConnect:
		refuse(w, http.StatusMethodNotAllowed, refusedMethod)
		return
	case !isForHost(r):
		refuse(w, http.StatusMisdirectedRequest, refusedHost)
		return
	}
	// One server may host many tenants. Another host name could send the value to another tenant, so it is refused.
	authority, ok := authorityOf(r, f.name, port)
	if !ok {
		refuse(w, http.StatusMisdirectedRequest, refusedHost)
		return
	}
	for _, one := range secrets {
		if !isHeaderValue(one.secret.Value) {
			refuse(w, http.StatusBadGateway, refusedValue)
			return
		}
	}
	made := sizeWith(r.Header, r.URL.RawQuery, secrets)
	if made > sentBytesMax {
		refuse(w, http.StatusBadGateway, refusedValue)
		return
	}
	if !p.budget.take(f, load{headBytes: made}) {
		refuseLoad(w)
		return
	}
	holds[headBytes] += made
	put := &putting{target: targetAt(r, f.name, port), authority: authority, secrets: secrets, decided: decided, sum: sumOf(secrets)}
	ctx, over := p.begins(r, f, secrets)
	defer over()
	ctx = httptrace.WithClientTrace(context.WithValue(ctx, putKey{}, put), &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) { p.lookAgain(r.Context(), f, put, got.Conn) }})
	p.onward(f, put, r.ProtoMajor).ServeHTTP(w, r.WithContext(ctx))
}

// lookAgain precedes the first byte, because the value may have become invalid while the request waited.
func (p *Proxy) lookAgain(ctx context.Context, f *flow, put *putting, conn net.Conn) {
	if time.Since(put.decided) < answerKept {
		return
	}
	said, err := p.answers.of(ctx, f.of)
	if err == nil && sumOf(said.placedAt(f.name, int(f.to.Port()))) == put.sum {
		return
	}
	put.stale.Store(true)
	conn.Close()
}

func sumOf(secrets []placed) [sha256.Size]byte {
	all := sha256.New()
	for _, one := range secrets {
		text, _ := json.Marshal(one.at) // cannot fail, because it was decoded from JSON
		all.Write(one.secret.sum[:])
		all.Write(text)
	}
	return [sha256.Size]byte(all.Sum(nil))
}

func refuseLoad(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	refuse(w, http.StatusTooManyRequests, refusedLoad)
}

// onward forwards requests in the protocol of the flow's first request. A WebSocket starts in HTTP/1.1, so such a
// connection is not changed to HTTP/2.
func (p *Proxy) onward(f *flow, put *putting, protocol int) *httputil.ReverseProxy {
	f.mu.Lock()
	if f.transport == nil {
		f.transport = p.transport(f, protocol)
	}
	transport := f.transport
	f.mu.Unlock()
	return &httputil.ReverseProxy{Transport: transport, Rewrite: rewrite, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), BufferPool: &buffers,
		ModifyResponse: func(response *http.Response) error {
			response.Header.Del("Alt-Svc") // the client would use the alternative service and so bypass this proxy
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			var untrusted *tls.CertificateVerificationError
			switch {
			case errors.As(err, &untrusted):
				refuse(w, http.StatusBadGateway, refusedUntrusted)
			case errors.Is(err, errTooMuch):
				refuseLoad(w)
			case put.stale.Load():
				refuse(w, http.StatusServiceUnavailable, refusedUnknown)
			default:
				refuse(w, http.StatusBadGateway, refusedUnreachable)
			}
		}}
}

func (p *Proxy) transport(f *flow, protocol int) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(protocol >= 2)
	return &http.Transport{Protocols: protocols, DisableCompression: true, IdleConnTimeout: idleTimeout, MaxResponseHeaderBytes: headerBytesMax, HTTP2: flowControl(),
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return p.connect(ctx, f, protocol) }}
}

func (p *Proxy) connect(ctx context.Context, f *flow, protocol int) (net.Conn, error) {
	holds := load{onward: 1}
	if !p.budget.take(f, holds) {
		return nil, errTooMuch
	}
	conn, err := p.dial(ctx, f, func() { p.budget.give(f, holds) })
	if err != nil {
		return nil, err
	}
	offers := []string{"http/1.1"}
	if protocol >= 2 {
		offers = []string{"h2", "http/1.1"}
	}
	secured := tls.Client(conn, &tls.Config{RootCAs: p.roots, ServerName: f.name, MinVersion: tls.VersionTLS12, NextProtos: offers})
	within, cancel := context.WithTimeout(ctx, p.handshake)
	defer cancel()
	if err := secured.HandshakeContext(within); err != nil {
		conn.Close()
		return nil, err
	}
	turns := plainEach
	if secured.ConnectionState().NegotiatedProtocol == "h2" {
		turns = streamsEach
	}
	f.widen(turns)
	return secured, nil
}

func rewrite(r *httputil.ProxyRequest) {
	put, _ := r.In.Context().Value(putKey{}).(*putting)
	r.Out.URL, r.Out.Host = put.target, put.authority
	if from, ok := r.In.Header["X-Forwarded-For"]; ok { // httputil removes it, but it names only a client and no host, so it is passed on
		r.Out.Header["X-Forwarded-For"] = slices.Clone(from)
	}
	dropHosts(r.Out.Header)
	r.Out.URL.RawQuery = putIn(r.Out.Header, r.In.URL.RawQuery, put.secrets)
	put.secrets = nil
}
