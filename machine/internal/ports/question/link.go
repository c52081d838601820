package question

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/door"
)

const (
	backoffMin      = 100 * time.Millisecond
	backoffMax      = 2 * time.Second
	waitForCell     = 2 * time.Second // how long a request waits for a connection to the cell
	writeMax        = 5 * time.Second
	queuedFramesMax = 8192
	tickEvery       = 500 * time.Millisecond
	dialMax         = 2 * time.Second
)

type Options struct {
	Socket   string
	PortHost string
	// Gone is called when a machine was replaced or ended. Pooled connections to the machine must not be used again.
	Gone func(workspaceID string)
	// Unconfirmed is how long streams continue without the cell.
	Unconfirmed time.Duration
	Log         *slog.Logger
}

const UnconfirmedMax = 30 * time.Second

// Link is the only connection from portd to the cell.
type Link struct {
	options Options

	mu              sync.Mutex
	session         *session
	connected       chan struct{} // closed while there is a session
	lastID          uint64
	asked           map[uint64]*Lease      // by id of the question
	links           map[uint64]*linkAnswer // questions about signed links
	leases          map[leaseKey]*Lease
	granted         map[uint64]*Lease // by id of the lease
	refused         negatives
	cutting         map[chan struct{}]struct{} // streams that are being cut
	budgets         budgets
	looks           map[Target]*look // the latest look at each target
	looking         map[uint64]*look // unanswered looks, by id of the question
	toldConnections int
}

type session struct {
	conn  net.Conn
	queue chan sent
	gone  chan struct{}
	once  sync.Once
}

func NewLink(options Options) *Link {
	return &Link{
		options:   options,
		connected: make(chan struct{}),
		asked:     map[uint64]*Lease{},
		links:     map[uint64]*linkAnswer{},
		leases:    map[leaseKey]*Lease{},
		granted:   map[uint64]*Lease{},
		budgets:   newBudgets(),
		cutting:   map[chan struct{}]struct{}{},
		looks:     map[Target]*look{},
		looking:   map[uint64]*look{},
	}
}

func (l *Link) Run(ctx context.Context) {
	go l.tick(ctx)
	pause := backoffMin
	for ctx.Err() == nil {
		began := time.Now()
		err := l.converse(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > backoffMax {
			pause = backoffMin
		}
		l.options.Log.Warn("no connection to the cell", "error", err, "again_in", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, backoffMax)
	}
}

func (l *Link) converse(ctx context.Context) error {
	dialer := net.Dialer{Timeout: dialMax}
	conn, err := dialer.DialContext(ctx, "unix", l.options.Socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	s := &session{conn: conn, queue: make(chan sent, queuedFramesMax), gone: make(chan struct{})}
	go s.write()
	l.begin(s)
	defer l.end(s)
	reader := bufio.NewReaderSize(conn, frameMax)
	for {
		frame, err := readFrame(reader)
		if err != nil {
			return err
		}
		if err := l.receive(frame); err != nil {
			return err
		}
	}
}

func (s *session) write() {
	buffered := bufio.NewWriter(s.conn)
	for {
		select {
		case <-s.gone:
			return
		case frame := <-s.queue:
			if err := s.writeFrame(buffered, frame); err != nil {
				s.close()
				return
			}
		}
	}
}

func (s *session) writeFrame(to *bufio.Writer, frame sent) error {
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeMax))
	if frame.written != nil {
		defer close(frame.written)
		return to.Flush()
	}
	line, err := frame.line()
	if err != nil {
		return err
	}
	if _, err := to.Write(line); err != nil || len(s.queue) > 0 {
		return err
	}
	return to.Flush()
}

func (s *session) close() {
	s.once.Do(func() {
		close(s.gone)
		s.conn.Close()
	})
}

// A full queue means that the cell does not read, so send ends this connection, and a new one is made.
func (l *Link) send(frame sent) {
	if l.session == nil {
		return
	}
	select {
	case l.session.queue <- frame:
	default:
		l.session.close()
	}
}

// begin starts a session. Leases that streams still use are requested again.
func (l *Link) begin(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.toldConnections = s, 0
	l.send(sent{Hello: &helloFrame{protocolVersion, l.options.PortHost}})
	for _, lease := range l.leases {
		l.ask(lease)
	}
	close(l.connected)
}

func (l *Link) end(s *session) {
	s.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.connected = nil, make(chan struct{})
	for id, answer := range l.links {
		delete(l.links, id)
		answer.refuse(door.Refuse("unavailable"))
	}
	clear(l.asked)
	clear(l.granted)
	for id, each := range l.looking {
		delete(l.looking, id)
		close(each.done)
	}
	for _, lease := range l.leases {
		if len(lease.users) == 0 {
			l.finish(lease, door.Refuse("unavailable"))
			continue
		}
		lease.state, lease.idle, lease.busyAsked = asking, false, false
		if lease.unconfirmedUntil.IsZero() {
			lease.unconfirmedUntil = time.Now().Add(l.options.Unconfirmed)
		}
	}
}

func (l *Link) Connected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session != nil
}

// awaitSession waits for a connection to the cell, which may be starting.
func (l *Link) awaitSession(ctx context.Context) bool {
	l.mu.Lock()
	connected := l.connected
	l.mu.Unlock()
	timer := time.NewTimer(waitForCell)
	defer timer.Stop()
	select {
	case <-connected:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (l *Link) tick(ctx context.Context) {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			l.lookAfter(now)
		}
	}
}

// Flush sends the last counts and waits until they are written.
func (l *Link) Flush() {
	l.mu.Lock()
	s, now := l.session, time.Now()
	for _, lease := range l.leases {
		l.count(lease, now)
	}
	l.mu.Unlock()
	if s == nil {
		return
	}
	written := make(chan struct{})
	timer := time.NewTimer(writeMax)
	defer timer.Stop()
	select {
	case s.queue <- sent{written: written}:
	case <-s.gone:
		return
	}
	select {
	case <-written:
	case <-s.gone:
	case <-timer.C:
	}
}
