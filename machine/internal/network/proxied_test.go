package network

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/wire"
)

const proxied = "proxied"

// proxy answers on the socket of the router with one line, and ends.
func proxy(t *testing.T, r *Router) {
	t.Helper()
	file, err := r.ListenForSecrets()
	must(t, err)
	listener, err := net.FileListener(file)
	must(t, err)
	file.Close()
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(conn, proxied)
			conn.Close()
		}
	}()
}

func (w policed) withSecrets(p wire.EgressPolicy, ports ...int) {
	w.t.Helper()
	p.SecretPorts, p.SecretsOf = ports, &wire.SecretsOf{WorkspaceID: "w", Epoch: 1}
	w.set(p)
}

// isProxied says whether a connection comes to the proxy.
func (w policed) isProxied(address string, port int) bool {
	w.t.Helper()
	conn, err := dial(w.a.ns, address, port, arrives)
	if err != nil {
		w.t.Fatalf("%s:%d: %v", address, port, err)
	}
	defer conn.Close()
	must(w.t, conn.SetDeadline(time.Now().Add(arrives)))
	line := make([]byte, len(proxied))
	_, err = io.ReadFull(conn, line)
	must(w.t, err)
	return string(line) == proxied
}

func TestConnectionsToPortsOfSecretsAreLedToTheProxyAndOthersAreNot(t *testing.T) {
	w := openPoliced(t, mode("open", wire.EgressAllowAll))
	proxy(t, w.r)
	if w.isProxied(public, 443) {
		t.Fatal("a machine without secrets is led to the proxy")
	}
	w.withSecrets(mode("secrets", wire.EgressAllowAll), 443)
	if !w.isProxied(public, 443) || w.isProxied(public, 80) {
		t.Fatal("only port 443 is to be led to the proxy")
	}
	w.withSecrets(mode("more", wire.EgressAllowAll), 80, 443)
	if !w.isProxied(public, 443) || !w.isProxied(public, 80) {
		t.Fatal("both ports are to be led to the proxy")
	}
	if found := w.r.WithSecrets(); len(found) != 1 {
		t.Fatal(found)
	}
	call(t, w.r.namespace, public, 443) // as the proxy goes on
	w.set(mode("none", wire.EgressAllowAll))
	if w.isProxied(public, 443) || len(w.r.WithSecrets()) > 0 {
		t.Fatal("it is led to the proxy after its secrets were taken back")
	}
}

func TestAPolicyHoldsForWhatIsLedToTheProxy(t *testing.T) {
	w := openPoliced(t, mode("open", wire.EgressAllowAll), second)
	proxy(t, w.r)
	w.withSecrets(allowlist("list", []string{second + "/32"}, "api.example.com"), 443)
	w.refusedAtOnce("an address that nothing allows", public, 443)
	must(t, w.grant("api.example.com", public))
	if !w.isProxied(public, 443) || !w.isProxied(second, 443) {
		t.Fatal("what is allowed is to be led to the proxy")
	}
	w.refusedAtOnce("a port that nothing allows", public, 80)
	w.withSecrets(mode("closed", wire.EgressDenyAll), 443)
	w.refusedAtOnce("everything", public, 443)
	must(t, w.r.Release("a"))
}

func TestNobodyConnectsToTheProxyItself(t *testing.T) {
	w := openPoliced(t, mode("open", wire.EgressAllowAll))
	proxy(t, w.r)
	w.withSecrets(mode("secrets", wire.EgressAllowAll), 443, SecretsPort)
	if conn, err := dial(w.a.ns, w.r.nameserver().String(), SecretsPort, time.Second); err == nil {
		conn.Close()
		t.Fatal("a machine connects to the proxy")
	}
}

func TestWhatIsLedToTheProxyStaysSoForTheNextHostd(t *testing.T) {
	w := openPoliced(t, mode("open", wire.EgressAllowAll))
	w.withSecrets(mode("secrets", wire.EgressAllowAll), 443)
	w.r.release()
	next := openTest(t, w.c)
	proxy(t, next)
	if found := next.WithSecrets(); found[w.a.Address] != (wire.SecretsOf{WorkspaceID: "w", Epoch: 1}) {
		t.Fatal(found)
	}
	if !w.isProxied(public, 443) {
		t.Fatal("it is not led to the proxy any more")
	}
}
