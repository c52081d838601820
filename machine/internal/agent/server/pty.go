package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/pty"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	// How long input waits for a program that does not read.
	inputSecondsMax   = 10
	goodbyeSecondsMax = 5
)

func (m *machine) ptyRoutes() map[string]handle {
	return map[string]handle{
		"POST /pty":             m.postPty,
		"GET /pty":              m.getPtys,
		"GET /pty/{id}":         m.onTerminal(showPty),
		"DELETE /pty/{id}":      m.onTerminal(closePty),
		"POST /pty/{id}/resize": m.onTerminal(resizePty),
		"POST /pty/{id}/input":  m.onTerminal(typeIntoPty),
		"POST /pty/{id}/attach": m.attachPty,
	}
}

func (m *machine) opened() (*pty.Manager, error) {
	if _, err := m.running(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.terminals, nil
}

func (m *machine) postPty(w http.ResponseWriter, r *http.Request) error {
	terminals, err := m.opened()
	if err != nil {
		return err
	}
	var req wire.PtyRequest
	if err := parse(w, r, &req); err != nil {
		return err
	}
	if req.User == "" {
		req.User = m.defaultUser()
	}
	t, created, err := terminals.Start(req)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	send(w, status, t.Record())
	return nil
}

func (m *machine) onTerminal(do func(w http.ResponseWriter, r *http.Request, t *pty.Terminal) error) handle {
	return func(w http.ResponseWriter, r *http.Request) error {
		t, err := m.terminal(r)
		if err == nil {
			err = do(w, r, t)
		}
		if err != nil {
			return err
		}
		send(w, http.StatusOK, t.Record())
		return nil
	}
}

func (m *machine) terminal(r *http.Request) (*pty.Terminal, error) {
	terminals, err := m.opened()
	if err != nil {
		return nil, err
	}
	return terminals.Get(r.PathValue("id"))
}

func showPty(http.ResponseWriter, *http.Request, *pty.Terminal) error { return nil }

func closePty(_ http.ResponseWriter, _ *http.Request, t *pty.Terminal) error {
	t.Close()
	return nil
}

func resizePty(w http.ResponseWriter, r *http.Request, t *pty.Terminal) error {
	var size wire.PtySize
	if err := parse(w, r, &size); err != nil {
		return err
	}
	return t.Resize(size)
}

func typeIntoPty(w http.ResponseWriter, r *http.Request, t *pty.Terminal) error {
	var input wire.PtyInput
	if err := parse(w, r, &input); err != nil {
		return err
	}
	if len(input.Data) > wire.FrameDataMax {
		return fail.TooLarge("The input is too large", wire.FrameDataMax)
	}
	ctx, cancel := context.WithTimeout(r.Context(), inputSecondsMax*time.Second)
	defer cancel()
	return t.Write(ctx, input.Data)
}

func (m *machine) attachPty(w http.ResponseWriter, r *http.Request) error {
	t, err := m.terminal(r)
	if err != nil {
		return err
	}
	offset, err := wholeNumber(r.URL.Query().Get("offset"), 0)
	if err == nil {
		err = t.CheckOffset(offset)
	}
	if err != nil {
		return err
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil // disconnected
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: berth-frames\r\n\r\n"); err != nil {
		return nil // disconnected
	}
	relayPty(t, conn, buffered, offset)
	return nil
}

func relayPty(t *pty.Terminal, conn net.Conn, from io.Reader, offset int64) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		_ = t.Take(ctx, from) // the peer disconnected or sent an invalid frame, so no more frames are read
		cancel()
		conn.Close() // unblocks a Send to a peer that does not read
	}()
	if err := t.Send(ctx, conn, offset); err != nil {
		conn.Close()
	}
	cancel() // ends a pending input
	// Closing with unread bytes would reset the connection and could lose the last frame. So the peer's bytes are read
	// for a while.
	_ = conn.SetDeadline(time.Now().Add(goodbyeSecondsMax * time.Second))
	<-taken
}

// Terminals have a quarter of the output's bytes for themselves. Commands and terminals cannot evict each other's
// output.
const terminalShare = 4

func forTerminals(limits wire.GuestLimits) wire.GuestLimits {
	limits.OutputBytes /= terminalShare
	return limits
}

func forCommands(limits wire.GuestLimits) wire.GuestLimits {
	limits.OutputBytes -= limits.OutputBytes / terminalShare
	return limits
}
