package resolver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/egress"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const LineBytesMax = 1 << 20

// FromHost is a message of hostd: policies, which are acknowledged by ID, or the answer to a Grant.
type FromHost struct {
	ID       uint64                          `json:"id"`
	Policies map[netip.Addr]*wire.HostEgress `json:"policies,omitempty"` // null: the machine may ask for every name
	Granted  bool                            `json:"granted,omitempty"`
	Grant    bool                            `json:"grant,omitempty"` // the message answers a Grant, and sets no policy
}

// ToHost is a message to hostd. Exactly one field is set.
type ToHost struct {
	Ack     uint64   `json:"ack,omitempty"`
	Grant   *Grant   `json:"grant,omitempty"`
	Refused []Denied `json:"refused,omitempty"`
}

// Grant asks hostd to open a name's addresses. The resolver answers the machine only after hostd has done so.
type Grant struct {
	ID            uint64       `json:"id"`
	Machine       netip.Addr   `json:"machine"`
	Name          string       `json:"name"`
	Addresses     []netip.Addr `json:"addresses"`
	UsableSeconds uint32       `json:"usable_seconds"`
}

// Denied counts a machine's questions for a name that its policy forbids.
type Denied struct {
	Machine netip.Addr `json:"machine"`
	Name    string     `json:"name"`
	Count   int64      `json:"count"`
}

const (
	grantTimeout = 5 * time.Second
	deniedMax    = 4096 // maximum number of names that wait to be reported
	deniedEach   = 100 * time.Millisecond
	deniedBatch  = 256
)

var errNoHost = errors.New("hostd is not there")

// hostLink is the connection to hostd. Without hostd, policies remain in force and no further address is granted.
type hostLink struct {
	conn net.Conn
	send sync.Mutex

	mu       sync.Mutex
	policies map[netip.Addr]*egress.Matcher // only of machines that may not ask for every name
	next     uint64
	waiting  map[uint64]chan bool
	gone     bool
	denied   map[Denied]int64 // number of questions; the keys have Count 0
	tell     chan struct{}
}

func newHostLink(conn net.Conn, policies map[netip.Addr]wire.HostEgress) *hostLink {
	l := &hostLink{conn: conn, policies: map[netip.Addr]*egress.Matcher{}, waiting: map[uint64]chan bool{}, denied: map[Denied]int64{}, tell: make(chan struct{}, 1)}
	for machine, policy := range policies {
		l.policies[machine] = egress.NewMatcher(policy)
	}
	return l
}

func (l *hostLink) run(ctx context.Context) {
	go l.tellDenied(ctx)
	lines := bufio.NewScanner(l.conn)
	lines.Buffer(make([]byte, 64<<10), LineBytesMax)
	for lines.Scan() {
		var message FromHost
		if err := json.Unmarshal(lines.Bytes(), &message); err != nil {
			break // after an invalid message, no later one can be trusted
		}
		l.take(message)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	for id, answer := range l.waiting {
		close(answer)
		delete(l.waiting, id)
	}
}

func (l *hostLink) take(message FromHost) {
	l.mu.Lock()
	if message.Grant {
		if answer := l.waiting[message.ID]; answer != nil {
			answer <- message.Granted
			delete(l.waiting, message.ID)
		}
		l.mu.Unlock()
		return
	}
	for machine, policy := range message.Policies {
		if policy == nil {
			delete(l.policies, machine)
		} else {
			l.policies[machine] = egress.NewMatcher(*policy)
		}
	}
	l.mu.Unlock()
	_ = l.write(ToHost{Ack: message.ID}) // fails only if hostd has ended, which then needs no ack
}

func (l *hostLink) write(message ToHost) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	l.send.Lock()
	defer l.send.Unlock()
	if err := l.conn.SetWriteDeadline(time.Now().Add(grantTimeout)); err != nil {
		return err
	}
	_, err = l.conn.Write(append(text, '\n'))
	return err
}

func (l *hostLink) policyOf(machine netip.Addr) *egress.Matcher {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.policies[machine]
}

func (l *hostLink) grant(ctx context.Context, g Grant) error {
	ctx, cancel := context.WithTimeout(ctx, grantTimeout)
	defer cancel()
	answer := make(chan bool, 1)
	l.mu.Lock()
	if l.gone {
		l.mu.Unlock()
		return errNoHost
	}
	l.next++
	g.ID = l.next
	l.waiting[g.ID] = answer
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.waiting, g.ID)
	}()
	if err := l.write(ToHost{Grant: &g}); err != nil {
		return err
	}
	select {
	case granted := <-answer:
		if !granted {
			return fmt.Errorf("hostd does not grant the addresses of %s", g.Name)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *hostLink) deny(machine netip.Addr, name string) {
	l.mu.Lock()
	key := Denied{Machine: machine, Name: name}
	if _, known := l.denied[key]; !known && len(l.denied) >= deniedMax || l.gone {
		l.mu.Unlock()
		return
	}
	l.denied[key]++
	l.mu.Unlock()
	select {
	case l.tell <- struct{}{}:
	default: // a report is pending already
	}
}

func (l *hostLink) tellDenied(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.tell:
		}
		for batch := l.takeDenied(); len(batch) > 0; batch = l.takeDenied() {
			if l.write(ToHost{Refused: batch}) != nil {
				return
			}
		}
		time.Sleep(deniedEach) // waits, so that one report contains many names
	}
}

func (l *hostLink) takeDenied() (batch []Denied) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, count := range l.denied {
		if len(batch) == deniedBatch {
			break
		}
		delete(l.denied, key)
		key.Count = count
		batch = append(batch, key)
	}
	return batch
}
