package hostd

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/resolver"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	policyAcked    = 3 * time.Second  // a resolver that does not acknowledge a policy in this time is ended
	resolverAlone  = 20 * time.Second // how long a policy waits for an earlier hostd's resolver to end
	resolverGone   = 10 * time.Second
	grantsTogether = 64

	deniedNamesMax  = 256 // per machine
	deniedNamesKept = 24 * time.Hour
	deniedNameBytes = 300
)

type resolverLink struct {
	mu    sync.Mutex
	link  *nameLink
	alone chan struct{} // closed when no resolver of an earlier hostd can answer
	once  sync.Once

	denied map[netip.Addr]map[string]*deniedName
	// isLetOut reports whether the machine's packets may leave. A denial at another address is ignored, because it is
	// of the previous machine there.
	isLetOut func(netip.Addr) bool
}

type deniedName struct {
	count       int64
	first, last time.Time
}

func newNames() *resolverLink {
	return &resolverLink{alone: make(chan struct{}), denied: map[netip.Addr]map[string]*deniedName{}, isLetOut: func(netip.Addr) bool { return true }}
}

func (n *resolverLink) noOlderResolver() { n.once.Do(func() { close(n.alone) }) }

type nameLink struct {
	conn net.Conn
	end  func()
	gone chan struct{}

	send    sync.Mutex
	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan struct{}
}

// begin holds the lock during `snapshot`. So each change is either in the set-up or sent afterwards.
func (n *resolverLink) begin(link *nameLink, snapshot func() error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link = link
	return snapshot()
}

func (n *resolverLink) over(link *nameLink) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.link == link {
		n.link = nil
	}
	link.conn.Close()
	close(link.gone)
}

// tell returns when no resolver answers under an earlier policy. A nil policy allows all names. A resolver that starts
// meanwhile gets the policy from the router, which already has it.
func (n *resolverLink) tell(ctx context.Context, machine netip.Addr, policy *wire.HostEgress) error {
	ctx, cancel := context.WithTimeout(ctx, resolverAlone)
	defer cancel()
	select {
	case <-n.alone:
	case <-ctx.Done():
		return errors.New("an older resolver may still answer")
	}
	n.mu.Lock()
	link := n.link
	n.mu.Unlock()
	if link == nil {
		return nil
	}
	if link.tell(machine, policy) == nil {
		return nil
	}
	link.end()
	select {
	case <-link.gone:
		return nil
	case <-time.After(resolverGone):
		return errors.New("the resolver takes no policy, and does not end")
	}
}

func (l *nameLink) tell(machine netip.Addr, policy *wire.HostEgress) error {
	acked := make(chan struct{})
	l.mu.Lock()
	l.next++
	id := l.next
	l.waiting[id] = acked
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.waiting, id)
	}()
	if err := l.write(resolver.FromHost{ID: id, Policies: map[netip.Addr]*wire.HostEgress{machine: policy}}); err != nil {
		return err
	}
	select {
	case <-acked:
		return nil
	case <-l.gone:
		return net.ErrClosed
	case <-time.After(policyAcked):
		return context.DeadlineExceeded
	}
}

func (l *nameLink) write(message resolver.FromHost) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	l.send.Lock()
	defer l.send.Unlock()
	if err := l.conn.SetWriteDeadline(time.Now().Add(policyAcked)); err != nil {
		return err
	}
	_, err = l.conn.Write(append(text, '\n'))
	return err
}

// forget must be called before another owner gets the address, because the resolver has the old policy until then.
func (n *resolverLink) forget(machine netip.Addr) {
	n.mu.Lock()
	link := n.link
	delete(n.denied, machine)
	n.mu.Unlock()
	if link != nil {
		_ = link.write(resolver.FromHost{Policies: map[netip.Addr]*wire.HostEgress{machine: nil}}) // fails only if the resolver has ended
	}
}

// The resolver parses input of hostile guests and may be compromised. So its messages are bounded and checked.
func (h *Host) listenToResolver(link *nameLink) {
	lines := bufio.NewScanner(link.conn)
	lines.Buffer(make([]byte, 64<<10), resolver.LineBytesMax)
	together := make(chan struct{}, grantsTogether)
	for lines.Scan() {
		var message resolver.ToHost
		if err := json.Unmarshal(lines.Bytes(), &message); err != nil {
			h.log.Error("the resolver sent an unreadable message, and is ended", "error", err)
			break
		}
		link.acknowledge(message.Ack)
		for _, one := range message.Refused {
			h.names.deny(one, time.Now())
		}
		if message.Grant != nil {
			together <- struct{}{}
			go func() {
				defer func() { <-together }()
				_ = link.write(resolver.FromHost{ID: message.Grant.ID, Grant: true, Granted: h.grant(*message.Grant)}) // fails only if the resolver has ended
			}()
		}
	}
	link.end()
}

func (l *nameLink) acknowledge(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if acked := l.waiting[id]; acked != nil {
		close(acked)
		delete(l.waiting, id)
	}
}

func (h *Host) grant(g resolver.Grant) bool {
	err := h.router.Grant(g.Machine, g.Name, g.Addresses, time.Duration(g.UsableSeconds)*time.Second)
	if err != nil {
		h.log.Debug("addresses of a name are not granted", "machine", g.Machine.String(), "error", err)
	}
	return err == nil
}

func (n *resolverLink) deny(one resolver.Denied, now time.Time) {
	name := strings.TrimSuffix(one.Name, ".")
	if len(name) > deniedNameBytes {
		name = name[:deniedNameBytes]
	}
	if one.Count < 1 || !n.isLetOut(one.Machine) || strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	of := n.denied[one.Machine]
	if of == nil {
		of = map[string]*deniedName{}
		n.denied[one.Machine] = of
	}
	known := of[name]
	if known == nil {
		if len(of) >= deniedNamesMax {
			delete(of, oldest(of))
		}
		known = &deniedName{first: now}
		of[name] = known
	}
	known.count += one.Count
	known.last = now
}

func oldest(of map[string]*deniedName) string {
	return slices.MinFunc(slices.Collect(maps.Keys(of)), func(a, b string) int { return cmp.Or(of[a].last.Compare(of[b].last), cmp.Compare(a, b)) })
}

func (n *resolverLink) refusedTo(machine netip.Addr, now time.Time) (list []wire.HostDenial) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, known := range n.denied[machine] {
		if now.Sub(known.last) > deniedNamesKept {
			delete(n.denied[machine], name)
			continue
		}
		list = append(list, wire.HostDenial{Name: &name, Protocol: wire.DeniedDNS, Count: known.count, FirstAt: stamp(known.first), LastAt: stamp(known.last)})
	}
	return list
}

func linkPair() (ours net.Conn, theirs *os.File, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("a way to the resolver: %w", err)
	}
	file := os.NewFile(uintptr(ends[0]), "resolver")
	defer file.Close()
	theirs = os.NewFile(uintptr(ends[1]), "resolver-link")
	if ours, err = net.FileConn(file); err != nil {
		theirs.Close()
	}
	return ours, theirs, err
}
