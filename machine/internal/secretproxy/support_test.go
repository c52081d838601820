package secretproxy

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	boundHost   = "api.example.com"
	value       = "sk-canary-value"
	placeholder = "berth-secret-0123456789"
)

var (
	machineAddress = netip.MustParseAddr("127.0.0.1")
	workspace      = wire.SecretsOf{WorkspaceID: "0192f3a0-0000-7000-8000-000000000001", Epoch: 3}
)

type world struct {
	t         *testing.T
	proxy     *Proxy
	address   string         // of the proxy
	workspace authority      // trusted by the machine
	servers   authority      // trusted by the proxy
	host      net.Conn       // hostd's end
	cell      net.Conn       // closed: the cell is gone
	mu        sync.Mutex     // guards the fields below
	secrets   []secret       // the cell's answer
	to        netip.AddrPort // the machine's destination
}

func newAuthority(t *testing.T, id string) authority {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: id}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * 365 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	return authority{ID: id, Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		PrivateKey: base64.StdEncoding.EncodeToString(must(x509.MarshalPKCS8PrivateKey(key)))}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func poolOf(authorities ...authority) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, a := range authorities {
		pool.AppendCertsFromPEM([]byte(a.Certificate))
	}
	return pool
}

func open(t *testing.T, handler http.Handler) *world {
	t.Helper()
	w := &world{t: t, workspace: newAuthority(t, "workspace"), servers: newAuthority(t, "servers")}
	w.to = w.serve(boundHost, handler)
	w.secrets = []secret{{Name: "TOKEN", Placeholder: placeholder, Value: value, Hosts: []host{{Host: boundHost, Ports: []int{int(w.to.Port())}}}}}
	w.proxy = New(poolOf(w.servers), nil, uint32(os.Getuid()), map[netip.Addr]wire.SecretsOf{machineAddress: workspace})
	w.proxy.meantFor = func(net.Conn) (netip.AddrPort, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.to, nil
	}
	w.proxy.ongoingEvery = answerKept
	requests := must(net.Listen("tcp4", "127.0.0.1:0"))
	answers := must(net.Listen("unix", filepath.Join(t.TempDir(), "answers")))
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); requests.Close(); answers.Close(); ours.Close() })
	go func() { _ = w.proxy.serve(ctx, requests, answers, theirs) }()
	w.address, w.host = requests.Addr().String(), ours
	w.cell = must(net.Dial("unix", answers.Addr().String()))
	go w.answer()
	return w
}

func (w *world) serve(name string, handler http.Handler) netip.AddrPort {
	certificate := must(w.servers.certify(name, time.Now()))
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.Config.DisableGeneralOptionsHandler = true
	server.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}}
	server.StartTLS()
	w.t.Cleanup(server.Close)
	return netip.MustParseAddrPort(server.Listener.Addr().String())
}

func (w *world) answer() {
	for lines := bufio.NewScanner(w.cell); lines.Scan(); {
		var asked question
		if json.Unmarshal(lines.Bytes(), &asked) != nil || asked.WorkspaceID != workspace.WorkspaceID || asked.Epoch != workspace.Epoch {
			return
		}
		w.mu.Lock()
		said := must(json.Marshal(answer{ID: asked.ID, Authority: w.workspace, Secrets: w.secrets}))
		w.mu.Unlock()
		if _, err := w.cell.Write(append(said, '\n')); err != nil {
			return
		}
	}
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) bind(hosts ...host) { w.set(func() { w.secrets[0].Hosts = hosts }) }

func (w *world) at() host { return host{Host: boundHost, Ports: []int{int(w.to.Port())}} }

func (w *world) client(protocol int) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(protocol == 1)
	protocols.SetHTTP2(protocol == 2)
	transport := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{RootCAs: poolOf(w.workspace, w.servers)},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp4", w.address)
		}}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func (w *world) tlsTo(name string) *tls.Conn {
	conn, err := net.Dial("tcp4", w.address)
	if err != nil {
		conn, _ = net.Pipe() // the machine reset this connection before it was reported
		conn.Close()
	}
	w.t.Cleanup(func() { conn.Close() })
	return tls.Client(conn, &tls.Config{ServerName: name, RootCAs: poolOf(w.workspace, w.servers)})
}

func (w *world) url(rest string) string { return "https://" + boundHost + rest }

func bodyOf(t *testing.T, response *http.Response) string {
	t.Helper()
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func refusalOf(t *testing.T, response *http.Response, err error) (int, string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	bodyOf(t, response)
	return response.StatusCode, response.Header.Get(RefusedHeader)
}

func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(testns.Patience(20 * time.Second)); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not so in time: " + what)
		}
	}
}

func echoes(w http.ResponseWriter) {
	conn, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
	_, _ = io.Copy(conn, buffered)
}
