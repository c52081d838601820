package hostd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/secretproxy"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	proxyAcked = 3 * time.Second // a proxy that does not acknowledge a change in this time is ended
	proxyGone  = 10 * time.Second
	proxyAlone = 20 * time.Second // how long a change waits for an earlier hostd's proxy to end
)

type secretLinks struct {
	enabled bool

	mu    sync.Mutex
	link  *secretLink
	told  map[netip.Addr]bool // machines that a proxy may have been told of
	alone chan struct{}       // closed when no proxy of an earlier hostd serves
	once  sync.Once
}

func newSecretLinks(enabled bool) *secretLinks {
	return &secretLinks{enabled: enabled, told: map[netip.Addr]bool{}, alone: make(chan struct{})}
}

type secretLink struct {
	conn net.Conn
	end  func()
	gone chan struct{}

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan struct{}
}

func newSecretLink(conn net.Conn, end func()) *secretLink {
	return &secretLink{conn: conn, end: end, gone: make(chan struct{}), waiting: map[uint64]chan struct{}{}}
}

// secretsOf returns nil if no port is redirected to the proxy.
func secretsOf(s *engine.Sandbox, policy wire.HostEgress) *wire.SecretsOf {
	claim := s.Record().Claim
	if len(policy.SecretPorts) == 0 || policy.Mode == wire.EgressDenyAll || claim == nil {
		return nil
	}
	subject := wire.SubjectOf(claim.Owner)
	return &wire.SecretsOf{WorkspaceID: subject.ID, Epoch: claim.Epoch}
}

func (l *secretLinks) adopt(machines map[netip.Addr]wire.SecretsOf) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for machine := range machines {
		l.told[machine] = true
	}
}

func (l *secretLinks) beAlone() { l.once.Do(func() { close(l.alone) }) }

// begin holds the lock during `snapshot`, so that no change is lost in between.
func (l *secretLinks) begin(link *secretLink, snapshot func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.link = link
	return snapshot()
}

func (l *secretLinks) over(link *secretLink) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.link == link {
		l.link = nil
	}
	link.conn.Close()
	close(link.gone)
}

// tell returns when no proxy relays a connection from before the change. A proxy that starts meanwhile gets the change
// from the router, which already has it.
func (l *secretLinks) tell(ctx context.Context, machine netip.Addr, of *wire.SecretsOf) error {
	l.mu.Lock()
	known := l.told[machine]
	if of != nil {
		l.told[machine] = true
	}
	l.mu.Unlock()
	if !l.enabled || of == nil && !known {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, proxyAlone)
	defer cancel()
	select {
	case <-l.alone:
	case <-ctx.Done():
		return errors.New("an older proxy may still inject secrets")
	}
	l.mu.Lock()
	link := l.link
	l.mu.Unlock()
	if link == nil || link.tell(machine, of) == nil {
		return nil
	}
	link.end()
	select {
	case <-link.gone:
		return nil
	case <-time.After(proxyGone):
		return errors.New("the proxy that puts secrets in takes no change, and does not end")
	}
}

// forget must be called before the next machine gets the address.
func (l *secretLinks) forget(machine netip.Addr) {
	_ = l.tell(context.Background(), machine, nil) // if the proxy does not acknowledge, it is ended, and the next one reads the router's state
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.told, machine)
}

func (l *secretLink) tell(machine netip.Addr, of *wire.SecretsOf) error {
	acked := make(chan struct{})
	l.mu.Lock()
	l.next++
	id := l.next
	l.waiting[id] = acked
	text, err := json.Marshal(secretproxy.FromHost{ID: id, Machines: map[netip.Addr]*wire.SecretsOf{machine: of}})
	if err == nil {
		err = l.conn.SetWriteDeadline(time.Now().Add(proxyAcked))
	}
	if err == nil {
		_, err = l.conn.Write(append(text, '\n'))
	}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.waiting, id)
	}()
	if err != nil {
		return err
	}
	select {
	case <-acked:
		return nil
	case <-l.gone:
		return nil // the next proxy reads the change when it starts
	case <-time.After(proxyAcked):
		return context.DeadlineExceeded
	}
}

// The proxy parses input of hostile guests and may be compromised. So hostd ends it after any unexpected message.
func (l *secretLink) listen() {
	lines := bufio.NewScanner(l.conn)
	for lines.Scan() {
		var said secretproxy.ToHost
		if json.Unmarshal(lines.Bytes(), &said) != nil {
			break
		}
		l.mu.Lock()
		if acked := l.waiting[said.Ack]; acked != nil {
			close(acked)
			delete(l.waiting, said.Ack)
		}
		l.mu.Unlock()
	}
	l.end()
}
