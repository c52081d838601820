package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// The size is limited, because the answer comes from a machine that may be hostile.
const agentAnswerMax = 64 << 10

// Connections are not kept: one could reach another sandbox that gets the address later. A claim reuses the start's.
func newAgentClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:            dialAnew,
		MaxIdleConnsPerHost:    1,
		MaxResponseHeaderBytes: 16 << 10,
	}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

const (
	dialTime    = 100 * time.Millisecond
	dialTimeAll = 5 * time.Second
)

// dialAnew retries with short time limits. The kernel repeats a lost first packet only after a second, and a sandbox's
// first answer may be late.
func dialAnew(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeAll)
	defer cancel()
	dialer := net.Dialer{Timeout: dialTime}
	for {
		connection, err := dialer.DialContext(ctx, network, address)
		var failed net.Error
		if err == nil || ctx.Err() != nil || !errors.As(err, &failed) || !failed.Timeout() {
			return connection, err
		}
	}
}

// WriteIncarnation must finish before the agent's look: gVisor caches a file's absence in an exclusive mount.
func (e *Engine) WriteIncarnation(s *Sandbox, incarnation wire.Incarnation) error {
	incarnation.Key = e.AgentKey(s.Slot, incarnation.Epoch)
	incarnation.Nameserver = s.Record().Nameserver
	text, err := json.Marshal(incarnation)
	if err != nil {
		return err
	}
	path := filepath.Join(s.tree(), "inc", strconv.FormatInt(incarnation.Epoch, 10)+".json")
	if err := os.WriteFile(path+".tmp", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// ClaimAgent assigns the agent to a workspace. It returns the volumes that failed to mount.
func (e *Engine) ClaimAgent(ctx context.Context, s *Sandbox, incarnation wire.Incarnation) ([]wire.RefusedVolume, error) {
	incarnation.Key = e.AgentKey(s.Slot, incarnation.Epoch)
	incarnation.Nameserver = s.Record().Nameserver
	body, err := json.Marshal(wire.ClaimRequest{Incarnation: incarnation})
	if err != nil {
		return nil, err
	}
	defer s.closeAgent() // hostd sends no more requests, and a checkpoint should not find an open connection
	answer, err := e.askAgent(ctx, s, http.MethodPost, "/claim", 0, body)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	return answer.RefusedVolumes, answer.matches(incarnation.WorkspaceID, incarnation.Epoch)
}

type Fitting struct {
	Layers []string // digests, the lowest first
	Limits wire.GuestLimits
}

// Fit gives a warm sandbox a blank disk. After an error the sandbox is unusable.
func (e *Engine) Fit(ctx context.Context, s *Sandbox, lower []string, disk, counters string, fitting Fitting) error {
	// If hostd ends here, the next hostd removes the sandbox, because it is not ready.
	if err := s.Update(func(r *Record) { r.Ready = false }); err != nil {
		return err
	}
	if err := e.MountDisk(s, lower, disk, counters); err != nil {
		return err
	}
	incarnation := wire.Incarnation{Limits: &fitting.Limits, Nameserver: s.Record().Nameserver}
	body, err := json.Marshal(wire.FitRequest{Incarnation: incarnation})
	if err != nil {
		return err
	}
	if _, err := e.askAgent(ctx, s, http.MethodPost, "/fit", 0, body); err != nil {
		return fmt.Errorf("fit: %w", err)
	}
	return s.Update(func(r *Record) { r.Ready, r.Fitted = true, fitting.Layers })
}

// CanFit reports whether the agent's protocol supports Fit.
func (s *Sandbox) CanFit() bool { return s.Record().AgentProtocol() >= wire.ProtocolFit }

// WaitForAgent polls the agent until it answers with this epoch.
func (e *Engine) WaitForAgent(ctx context.Context, s *Sandbox, epoch int64) (wire.Incarnation, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if epoch != 0 {
		defer s.closeAgent()
	}
	for {
		answer, err := e.askAgent(ctx, s, http.MethodGet, "/incarnation", epoch, nil)
		if err == nil && answer.Epoch == epoch {
			return wire.Incarnation(answer), nil
		}
		select {
		case <-s.Done():
			return wire.Incarnation{}, errors.New("the sandbox ended before its agent answered")
		case <-ctx.Done():
			return wire.Incarnation{}, fmt.Errorf("no answer from the agent: %w", err)
		case <-time.After(time.Millisecond):
		}
	}
}

// A running agent may be older than hostd. Its version is recorded, so that hostd sends only what it supports.
func (e *Engine) noteProtocol(s *Sandbox, answer wire.Incarnation) error {
	if !wire.SpeaksTo(answer.Protocol) {
		return fmt.Errorf("the agent speaks protocol %d, not %d to %d", answer.Protocol, wire.AgentProtocolMin, wire.AgentProtocol)
	}
	return s.Update(func(r *Record) { r.Protocol = answer.Protocol })
}

type incarnationAnswer wire.Incarnation

func (a incarnationAnswer) matches(workspace string, epoch int64) error {
	if a.WorkspaceID != workspace || a.Epoch != epoch {
		return errors.New("the agent answers as somebody else")
	}
	return nil
}

func (e *Engine) askAgent(ctx context.Context, s *Sandbox, method, path string, epoch int64, body []byte) (incarnationAnswer, error) {
	var answer incarnationAnswer
	err := e.askAgentFor(ctx, s, method, path, epoch, body, &answer)
	return answer, err
}

func (e *Engine) askAgentFor(ctx context.Context, s *Sandbox, method, path string, epoch int64, body []byte, answer any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+s.AgentAddress()+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+e.AgentKey(s.Slot, epoch))
	request.Header.Set("X-Berth-Epoch", strconv.FormatInt(epoch, 10))
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := s.agentClient().Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, agentAnswerMax))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the agent answered %d: %.300q", response.StatusCode, text)
	}
	return json.Unmarshal(text, answer)
}

func (s *Sandbox) agentClient() *http.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.agent == nil {
		s.agent = newAgentClient()
	}
	return s.agent
}

func (s *Sandbox) closeAgent() { s.agentClient().CloseIdleConnections() }

func (s *Sandbox) AgentAddress() string {
	return net.JoinHostPort(s.Record().Address, strconv.Itoa(wire.AgentPort))
}
