package secretproxy

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/accepting"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// question is sent to the cell. service/cell/host/secret-proxy.ts has the same field names.

type question struct {
	ID          uint64 `json:"id"`
	WorkspaceID string `json:"workspace_id"`
	Epoch       int64  `json:"epoch"`
}

type answer struct {
	ID        uint64    `json:"id"`
	Gone      bool      `json:"gone"`   // the machine no longer exists
	Failed    bool      `json:"failed"` // the cell cannot answer at the moment
	Authority authority `json:"authority"`
	Secrets   []secret  `json:"secrets"`
}

type secret struct {
	Name        string `json:"name"`
	Placeholder string `json:"placeholder"`
	Value       string `json:"value"`
	Hosts       []host `json:"hosts"`

	sum [sha256.Size]byte // of name, placeholder and value
}

type host struct {
	Host      string  `json:"host"`
	Ports     []int   `json:"ports"`
	Header    string  `json:"header,omitempty"`
	Bearer    bool    `json:"bearer,omitempty"`
	BasicUser *string `json:"basic_user,omitempty"`
	Query     string  `json:"query,omitempty"`
}

const (
	// A value is used no longer than this without asking again, because it may have been rotated or revoked.
	answerKept      = 400 * time.Millisecond
	answerForgotten = 5 * time.Second // values that were not used for this time are removed from memory
	answerTimeout   = 3 * time.Second
	answerBytesMax  = 8 << 20 // fifty values of 64 KiB
	// The bytes of all answers together. Above it the largest are removed, and requested again when they are needed.
	answersTogether = 24 << 20
)

var errNoAnswer = errors.New("what goes into requests is not known at the moment")

type answers struct {
	mu      sync.Mutex
	conn    net.Conn
	joined  chan struct{} // closed when a connection arrives; replaced when that ends
	next    uint64
	waiting map[uint64]chan *answer
	known   map[wire.SecretsOf]*known
	bytes   int
}

// known is the last answer about a machine. hosts are kept longer than values: while the cell does not answer,
// connections to other hosts can proceed.
type known struct {
	asking sync.Mutex
	answer *answer
	at     time.Time
	failed time.Time
	hosts  []host
	bytes  int // as counted in answers.bytes
}

func (k *known) size() (size int) {
	const each = 256
	for _, one := range k.hosts {
		size += each + len(one.Host) + len(one.Header) + len(one.Query)
	}
	if k.answer != nil {
		for _, one := range k.answer.Secrets {
			size += each + len(one.Value)
		}
	}
	return size
}

func newAnswers() *answers {
	return &answers{joined: make(chan struct{}), waiting: map[uint64]chan *answer{}, known: map[wire.SecretsOf]*known{}}
}

// accept accepts a connection only from that user or root.
func (a *answers) accept(listener net.Listener, uid uint32) error {
	for {
		conn, err := accepting.Next(listener)
		if err != nil {
			return err
		}
		if peer, err := peerOf(conn); err != nil || peer != uid && peer != 0 {
			conn.Close()
			continue
		}
		a.mu.Lock()
		if a.conn != nil {
			a.conn.Close()
		} else {
			close(a.joined)
		}
		a.conn = conn
		a.mu.Unlock()
		go a.listen(conn)
	}
}

func peerOf(conn net.Conn) (uid uint32, err error) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	return peer.Uid, nil
}

func (a *answers) listen(conn net.Conn) {
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, 64<<10), answerBytesMax)
	for lines.Scan() {
		said := &answer{}
		if json.Unmarshal(lines.Bytes(), said) != nil {
			break
		}
		a.mu.Lock()
		if waiting := a.waiting[said.ID]; waiting != nil {
			waiting <- said
			delete(a.waiting, said.ID)
		}
		a.mu.Unlock()
	}
	conn.Close()
	a.mu.Lock()
	if a.conn == conn {
		a.conn, a.joined = nil, make(chan struct{})
	}
	a.mu.Unlock()
}

func (a *answers) of(ctx context.Context, of wire.SecretsOf) (*answer, error) {
	came := time.Now()
	k := a.remember(of)
	k.asking.Lock() // concurrent callers wait here and use the same answer
	defer k.asking.Unlock()
	a.mu.Lock()
	last, at, failed := k.answer, k.at, k.failed
	a.mu.Unlock()
	switch {
	case last != nil && time.Since(at) < answerKept:
		return last, nil
	case failed.After(came):
		return nil, errNoAnswer // a question failed during the wait; asking again would make callers wait one after the other
	}
	began := time.Now()
	said, err := a.ask(ctx, of)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil { // otherwise only this caller has gone, and others may ask
			k.failed = time.Now()
		}
		return nil, err
	}
	hosts := []host{}
	for i := range said.Secrets {
		one := &said.Secrets[i]
		one.sum = sha256.Sum256([]byte(one.Name + "\x00" + one.Placeholder + "\x00" + one.Value))
		hosts = append(hosts, one.Hosts...)
	}
	if a.known[of] != k {
		return said, nil // the machine's secrets were changed or removed during the question, so the answer is not stored
	}
	k.answer, k.at, k.hosts = said, began, hosts
	a.count(k)
	a.bound()
	return said, nil
}

func (a *answers) count(k *known) {
	size := k.size()
	a.bytes, k.bytes = a.bytes+size-k.bytes, size
}

func (a *answers) bound() {
	for a.bytes > answersTogether {
		var largest *known
		for _, k := range a.known {
			if largest == nil || k.bytes > largest.bytes {
				largest = k
			}
		}
		if largest.answer == nil {
			largest.hosts = nil
		}
		largest.answer = nil
		a.count(largest)
	}
}

func (a *answers) remember(of wire.SecretsOf) *known {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.known[of]
	if k == nil {
		k = &known{}
		a.known[of] = k
	}
	return k
}

func (a *answers) hostsOf(of wire.SecretsOf) ([]host, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.known[of]
	if k == nil || k.hosts == nil {
		return nil, false
	}
	return k.hosts, true
}

func (a *answers) forget(of wire.SecretsOf) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k := a.known[of]; k != nil {
		a.bytes -= k.bytes
		delete(a.known, of)
	}
}

func (a *answers) letGo() {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.known {
		if now.Sub(k.at) > answerForgotten {
			k.answer = nil
			a.count(k)
		}
	}
}

func (a *answers) ask(ctx context.Context, of wire.SecretsOf) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	waiting := make(chan *answer, 1)
	if err := a.awaitCell(ctx); err != nil {
		return nil, err
	}
	a.mu.Lock()
	if a.conn == nil {
		a.mu.Unlock()
		return nil, errNoAnswer
	}
	a.next++
	id := a.next
	a.waiting[id] = waiting
	text, err := json.Marshal(question{ID: id, WorkspaceID: of.WorkspaceID, Epoch: of.Epoch})
	if err == nil {
		err = a.conn.SetWriteDeadline(time.Now().Add(answerTimeout))
	}
	if err == nil {
		_, err = a.conn.Write(append(text, '\n')) // a question is small, so the write does not block
	}
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.waiting, id)
	}()
	if err != nil {
		return nil, errors.Join(errNoAnswer, err)
	}
	select {
	case said := <-waiting:
		if said.Failed {
			return nil, errNoAnswer
		}
		return said, nil
	case <-ctx.Done():
		return nil, errors.Join(errNoAnswer, ctx.Err())
	}
}

func (a *answers) awaitCell(ctx context.Context) error {
	a.mu.Lock()
	joined := a.joined
	a.mu.Unlock()
	select {
	case <-joined:
		return nil
	case <-ctx.Done():
		return errNoAnswer
	}
}
