package network

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

const proxied = "proxied"

func proxy(t *testing.T, r *Router) {
	t.Helper()
	listener := listenAsProxy(t, r)
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

func (w policed) withSecrets(p wire.HostEgress, ports ...int) {
	w.t.Helper()
	p.SecretPorts, p.SecretsOf = ports, &wire.SecretsOf{WorkspaceID: "w", Epoch: 1}
	w.set(p)
}

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
	call(t, w.r.namespace, public, 443) // as the proxy connects onwards
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

func TestConnectionsToTheProxyAreAShareOfWhatIsTracked(t *testing.T) {
	w := openPolicedWith(t, func(c *Config) { c.conntrackMax = 1 }, mode("open", wire.EgressAllowAll)) // the lowest limit applies
	proxy(t, w.r)
	w.withSecrets(mode("secrets", wire.EgressAllowAll), 443)
	most := flowsMax[len(flowsMax)-1] / proxiedShare
	came := w.brief(3 * most)
	if came == 0 || came > 2*most { // a minute allows as many again
		t.Errorf("%d connections come to the proxy, and %d at a time may", came, most)
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

func listenAsProxy(t *testing.T, r *Router) net.Listener {
	t.Helper()
	file, err := r.ListenForSecrets()
	must(t, err)
	defer file.Close()
	listener, err := net.FileListener(file)
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	return listener
}

func narrower() map[string]wire.HostEgress {
	return map[string]wire.HostEgress{"deny_all": mode("closed", wire.EgressDenyAll), "allowlist": allowlist("narrow", []string{second + "/32"})}
}

func TestAConnectionThatWaitsForTheProxyEndsWithItsPolicy(t *testing.T) {
	for name, next := range narrower() {
		t.Run(name, func(t *testing.T) {
			w := openPoliced(t, allowlist("wide", []string{public + "/32", second + "/32"}), second)
			listener := listenAsProxy(t, w.r)
			w.withSecrets(allowlist("secrets", []string{public + "/32", second + "/32"}), 443)
			conns := map[string][2]net.Conn{}
			for _, what := range []string{"the machine sends", "the server sends"} {
				conn, err := dial(w.a.ns, public, 443, arrives)
				must(t, err)
				defer conn.Close()
				accepted, err := listener.Accept()
				must(t, err)
				defer accepted.Close()
				conns[what] = [2]net.Conn{conn, accepted}
			}
			w.withSecrets(next, 443)
			for what, ends := range conns {
				from, to := ends[0], ends[1]
				if what == "the server sends" {
					from, to = to, from
				}
				_, _ = from.Write([]byte("still here")) // the connection may be reset already
				must(t, from.SetReadDeadline(time.Now().Add(arrives)))
				if _, err := from.Read(make([]byte, 1)); err == nil || isTimeout(err) {
					t.Errorf("%s, and is not told that it is refused: %v", what, err)
				}
				must(t, to.SetReadDeadline(time.Now()))
				if n, _ := to.Read(make([]byte, 10)); n > 0 {
					t.Errorf("%s %d bytes", what, n)
				}
			}
			if name == "allowlist" && !w.isAccepted(listener, second) {
				t.Error("what the narrower policy allows does not reach the proxy")
			}
		})
	}
}

// The machine's own kernel already considers this connection established.
func TestAHalfOpenConnectionToTheProxyEndsWithItsPolicy(t *testing.T) {
	for name, next := range narrower() {
		t.Run(name, func(t *testing.T) {
			w := openPoliced(t, mode("open", wire.EgressAllowAll), second)
			proxy(t, w.r)
			w.withSecrets(mode("secrets", wire.EgressAllowAll), 443)
			release := holdBack(t, w.a.ns, 443)
			conn, err := dial(w.a.ns, public, 443, arrives)
			must(t, err)
			defer conn.Close()
			w.withSecrets(next, 443)
			release()
			_, _ = conn.Write([]byte("still here")) // the connection may be reset already
			must(t, conn.SetReadDeadline(time.Now().Add(arrives)))
			if n, err := conn.Read(make([]byte, 1)); n > 0 || isTimeout(err) {
				t.Errorf("%d bytes of the proxy's, %v", n, err)
			}
		})
	}
}

func holdBack(t *testing.T, namespace *os.File, port uint16) (release func()) {
	t.Helper()
	filter, err := nftables.New(nftables.WithNetNSFd(int(namespace.Fd())))
	must(t, err)
	table := filter.AddTable(&nftables.Table{Name: "hold", Family: nftables.TableFamilyIPv4})
	chain := filter.AddChain(baseChain(table, "out", nftables.ChainHookOutput, nftables.ChainPriorityFilter, nftables.ChainPolicyAccept))
	filter.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: rule(protocol(unix.IPPROTO_TCP), dport(port), notOpening(), drop())})
	must(t, filter.Flush())
	return func() {
		filter.DelTable(table)
		must(t, filter.Flush())
	}
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

func (w policed) isAccepted(listener net.Listener, address string) bool {
	w.t.Helper()
	conn, err := dial(w.a.ns, address, 443, arrives)
	must(w.t, err)
	defer conn.Close()
	accepted, err := listener.Accept()
	must(w.t, err)
	defer accepted.Close()
	_, err = conn.Write([]byte("a"))
	must(w.t, err)
	must(w.t, accepted.SetReadDeadline(time.Now().Add(arrives)))
	n, _ := accepted.Read(make([]byte, 1))
	return n == 1
}
