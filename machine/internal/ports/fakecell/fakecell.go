// Package fakecell is a test double of the cell's side of the protocol with portd.
package fakecell

import (
	"bufio"
	"encoding/json"
	"net"
	"path/filepath"
	"sync"
	"testing"
)

type Ask struct {
	ID         uint64 `json:"id"`
	HostID     string `json:"host_id"`
	Port       int    `json:"port"`
	Credential struct {
		Kind  string `json:"kind"`
		Value string `json:"value"`
	} `json:"credential"`
	WebSocket bool   `json:"websocket"`
	Method    string `json:"method"`
	Client    string `json:"client"`
}

type Frame map[string]json.RawMessage

type Grant struct {
	Lease       uint64 `json:"lease"`
	Address     string `json:"address"`
	Port        int    `json:"port"`
	WorkspaceID string `json:"workspace_id"`
	Epoch       int64  `json:"epoch"`
	ExpiresInMs *int64 `json:"expires_in_ms"`
}

type Refuse struct {
	Status  int    `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type Redirect struct {
	Path          string `json:"path"`
	Cookie        string `json:"cookie"`
	MaxAgeSeconds int    `json:"max_age_seconds"`
}

// Cell calls decide for each question. decide returns a Grant, Refuse or Redirect, or nil for no answer.
type Cell struct {
	Socket string
	Frames chan Frame // of every kind, in order of arrival

	decide   func(Ask) any
	ready    func(lease uint64) any
	look     func(lease uint64) []string
	listener net.Listener

	mu    sync.Mutex
	conn  net.Conn
	asked int
	last  uint64
}

func Start(t testing.TB, decide func(Ask) any) *Cell {
	t.Helper()
	c := &Cell{Socket: filepath.Join(t.TempDir(), "ports"), Frames: make(chan Frame, 100_000), decide: decide}
	c.Listen(t)
	t.Cleanup(c.Stop)
	return c
}

// Listen accepts connections. It can be called again after Stop.
func (c *Cell) Listen(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("unix", c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.listener = listener
	c.mu.Unlock()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			c.mu.Lock()
			c.conn = conn
			c.mu.Unlock()
			go c.converse(conn)
		}
	}()
}

func (c *Cell) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listener.Close()
	if c.conn != nil {
		c.conn.Close()
	}
}

// OnBusy sets the answer for a lease that is used again: {"ready":…} or {"cut":…}.
func (c *Cell) OnBusy(ready func(lease uint64) any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = ready
}

// OnLook sets a function that returns a lease's listeners, or nil if the machine cannot list them.
func (c *Cell) OnLook(look func(lease uint64) []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.look = look
}

func (c *Cell) Asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (c *Cell) NewLease() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	return c.last
}

func (c *Cell) converse(conn net.Conn) {
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var frame Frame
		if json.Unmarshal(lines.Bytes(), &frame) != nil {
			conn.Close()
			return
		}
		if text, isAsk := frame["ask"]; isAsk {
			var ask Ask
			_ = json.Unmarshal(text, &ask)
			c.mu.Lock()
			c.asked++
			c.mu.Unlock()
			go c.answer(ask)
		}
		if text, isBusy := frame["busy"]; isBusy {
			c.answerBusy(text)
		}
		if text, isLook := frame["look"]; isLook {
			c.answerLook(text)
		}
		c.Frames <- frame
	}
}

func (c *Cell) answerBusy(text json.RawMessage) {
	var busy struct{ Lease uint64 }
	_ = json.Unmarshal(text, &busy)
	c.mu.Lock()
	ready := c.ready
	c.mu.Unlock()
	if ready != nil {
		c.Send(ready(busy.Lease))
	}
}

func (c *Cell) answerLook(text json.RawMessage) {
	var asked struct{ ID, Lease uint64 }
	_ = json.Unmarshal(text, &asked)
	c.mu.Lock()
	look := c.look
	c.mu.Unlock()
	if look != nil {
		c.Send(map[string]any{"listeners": map[string]any{"id": asked.ID, "addresses": look(asked.Lease)}})
	}
}

func (c *Cell) answer(ask Ask) {
	switch answer := c.decide(ask).(type) {
	case Grant:
		c.Send(map[string]any{"grant": struct {
			ID uint64 `json:"id"`
			Grant
		}{ask.ID, answer}})
	case Refuse:
		c.Send(map[string]any{"refuse": struct {
			ID uint64 `json:"id"`
			Refuse
		}{ask.ID, answer}})
	case Redirect:
		c.Send(map[string]any{"redirect": struct {
			ID uint64 `json:"id"`
			Redirect
		}{ask.ID, answer}})
	}
}

func (c *Cell) Send(frame any) {
	text, err := json.Marshal(frame)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		_, _ = c.conn.Write(append(text, '\n'))
	}
}

func (c *Cell) Cut(lease uint64, reason string, status int) {
	c.Send(map[string]any{"cut": map[string]any{"lease": lease, "reason": reason, "status": status}})
}
