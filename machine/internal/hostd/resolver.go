package hostd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/cgroup"
	"github.com/berth-dev/berth/machine/internal/network"
	"github.com/berth-dev/berth/machine/internal/resolver"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	resolverAsked    = 10 * time.Second // interval of liveness probes
	resolverAnswers  = 5 * time.Second
	resolverSilences = 3 // the resolver is ended after this many failed probes in a row
)

var resolverLimits = cgroup.Limits{CPUMillis: 1000, MemoryBytes: resolver.MemoryBytesMax, Pids: 64}

type resolverState struct {
	mu    sync.Mutex
	known wire.Resolver
}

func (s *resolverState) read() wire.Resolver {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known
}

func (s *resolverState) began() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.Serving = true
	s.known.Starts++
}

func (s *resolverState) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.Serving = false
}

// The resolver outlives hostd, and runs until the next hostd starts its own. Without a resolver guests go on: their
// queries wait in the sockets, which hostd owns.
func (h *Host) keepResolver(ctx context.Context) {
	var sockets *network.NameSockets
	h.superviseChild(ctx, "the resolver of the machines", func() error { return h.runResolver(ctx, &sockets) })
	if sockets != nil {
		sockets.Close()
	}
}

// runResolver starts the resolver and returns when it ends. If the context ends, the process is not ended.
func (h *Host) runResolver(ctx context.Context, sockets **network.NameSockets) error {
	if *sockets == nil {
		made, err := h.router.ListenForNames()
		if err != nil {
			return err
		}
		*sockets = &made
	}
	process, link, err := h.startResolver(**sockets)
	if err != nil {
		return err
	}
	h.resolver.began()
	defer h.resolver.ended()
	if err := h.groups.Resolver().EndOthers(process.Process.Pid); err != nil {
		h.log.Error("an older resolver may still answer", "error", err)
	} else {
		h.names.noOlderResolver()
	}
	watched, unwatch := context.WithCancel(ctx)
	defer unwatch()
	ended, silent := make(chan error, 1), make(chan error, 1)
	go func() {
		err := process.Wait()
		h.names.over(link)
		ended <- err
	}()
	go h.listenToResolver(link)
	go func() {
		silent <- untilSilent(watched, resolverAsked, func() error { return h.router.AskForName(resolverAnswers) })
	}()
	select {
	case err := <-ended:
		return errors.Join(err, errors.New("its process ended"))
	case err := <-silent:
		if ctx.Err() != nil {
			return nil
		}
		err = errors.Join(err, process.Process.Kill())
		<-ended // its exit status is ignored, because it was killed
		return err
	}
}

func untilSilent(ctx context.Context, pause time.Duration, ask func() error) error {
	for silences := 0; ; {
		wait(ctx, nil, pause)
		err := ask()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			silences = 0
		default:
			silences++
		}
		if silences == resolverSilences {
			return fmt.Errorf("it answers no more: %w", err)
		}
	}
}

func (h *Host) startResolver(sockets network.NameSockets) (*exec.Cmd, *nameLink, error) {
	wanted := childProcess{
		name:    "resolver",
		command: resolver.Command,
		trace:   "single",
		uid:     h.config.ResolverUID,
		gid:     h.config.ResolverGID,
		group:   h.groups.Resolver(),
		limits:  resolverLimits,
		sockets: []*os.File{sockets.UDP, sockets.TCP},
		ready:   resolver.Ready,
		where:   h.router.WherePacketsLeave,
	}
	var link *nameLink
	process, err := wanted.start(h.config.Instance, func(conn net.Conn, end func()) (setup []byte, err error) {
		link = &nameLink{conn: conn, gone: make(chan struct{}), waiting: map[uint64]chan struct{}{}, end: end}
		err = h.names.begin(link, func() (err error) {
			names := h.router.NamesSetup()
			names.Policies = h.router.Restricted()
			setup, err = json.Marshal(names)
			return err
		})
		return setup, err
	})
	if err != nil {
		if link != nil {
			h.names.over(link)
		}
		return nil, nil, err
	}
	return process, link, nil
}
