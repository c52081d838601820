package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
)

// The largest message is a screenshot in base64.
const messageBytesMax = 24 << 20

var (
	errClosed   = errors.New("browser: the connection is closed")
	errTooLarge = errors.New("browser: a message is too large")
)

// conn speaks the DevTools protocol: JSON messages that end with NUL. The browser runs in the guest and is
// untrusted, so the size of a message is limited.
type conn struct {
	out    *os.File
	in     *os.File
	closed chan struct{}

	mu       sync.Mutex
	last     int64
	calls    map[int64]chan message
	sessions map[string]func(method string, params json.RawMessage)
	err      error
}

type message struct {
	ID        int64           `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

type refusedError string

func (e refusedError) Error() string { return "browser: " + string(e) }

func newConn(out, in *os.File) *conn {
	c := &conn{
		out: out, in: in, closed: make(chan struct{}),
		calls: map[int64]chan message{}, sessions: map[string]func(string, json.RawMessage){},
	}
	go c.read()
	return c
}

func (c *conn) read() {
	reader := bufio.NewReaderSize(c.in, 64<<10)
	for {
		b, err := readMessage(reader)
		if err != nil {
			c.close(err)
			return
		}
		var m message
		if json.Unmarshal(b, &m) == nil {
			c.deliver(m)
		}
	}
}

func readMessage(r *bufio.Reader) ([]byte, error) {
	var all []byte
	for {
		part, err := r.ReadSlice(0)
		all = append(all, part...)
		if len(all) > messageBytesMax {
			return nil, errTooLarge
		}
		if err == nil {
			return bytes.TrimSuffix(all, []byte{0}), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

func (c *conn) deliver(m message) {
	c.mu.Lock()
	waiting := c.calls[m.ID]
	delete(c.calls, m.ID)
	handle := c.sessions[m.SessionID]
	c.mu.Unlock()
	if waiting != nil {
		waiting <- m
	} else if m.Method != "" && handle != nil {
		handle(m.Method, m.Params)
	}
}

func (c *conn) close(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = cause
	close(c.closed)
	c.out.Close()
	c.in.Close()
}

func (c *conn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// The goroutine that reads all messages calls handle, so handle must not block.
func (c *conn) listen(session string, handle func(method string, params json.RawMessage)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if handle == nil {
		delete(c.sessions, session)
	} else {
		c.sessions[session] = handle
	}
}

func (c *conn) send(session, method string, params any) (int64, <-chan message, error) {
	text, err := json.Marshal(params)
	if err != nil {
		return 0, nil, err
	}
	c.mu.Lock()
	c.last++
	id, answer := c.last, make(chan message, 1)
	c.calls[id] = answer
	c.mu.Unlock()
	b, err := json.Marshal(message{ID: id, SessionID: session, Method: method, Params: text})
	if err != nil {
		return 0, nil, err
	}
	// One Write per message keeps messages whole, because os.File serializes concurrent writes.
	if _, err := c.out.Write(append(b, 0)); err != nil {
		c.close(err)
		return id, nil, errClosed
	}
	return id, answer, nil
}

func (m message) resultInto(result any) error {
	if m.Error != nil {
		return refusedError(m.Error.Message)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(m.Result, result)
}

func (c *conn) call(ctx context.Context, session, method string, params, result any) error {
	id, answer, err := c.send(session, method, params)
	if err != nil {
		return err
	}
	select {
	case m := <-answer:
		return m.resultInto(result)
	case <-c.closed:
		select {
		case m := <-answer: // the reply arrived before the connection closed
			return m.resultInto(result)
		default:
			return errors.Join(errClosed, c.cause())
		}
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
		return ctx.Err()
	}
}
