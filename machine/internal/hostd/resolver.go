package hostd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/berth-dev/berth/machine/internal/cgroup"
	"github.com/berth-dev/berth/machine/internal/network"
	"github.com/berth-dev/berth/machine/internal/resolver"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	resolverPauseMin = 100 * time.Millisecond
	resolverPauseMax = 10 * time.Second
	resolverSteady   = time.Minute // one that ran so long is started again at once
	resolverReady    = time.Minute
	resolverAsked    = 10 * time.Second // between two questions of ours
	resolverAnswers  = 5 * time.Second
	resolverSilences = 3 // after so many without an answer it is ended
)

var resolverLimits = cgroup.Limits{CPUMillis: 1000, MemoryBytes: resolver.MemoryBytesMax, Pids: 64}

// resolverState is what is known of the process that answers machines' DNS questions.
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

// keepResolver starts the process and starts it again whenever it dies or falls silent. It lives on when hostd ends, and answers until the next hostd has
// started another. Without it guests have no names, but they run: hostd goes on and says so. What they ask meanwhile waits in the sockets,
// which are hostd's.
func (h *Host) keepResolver(ctx context.Context) {
	pause := resolverPauseMin
	var sockets *network.NameSockets
	for ctx.Err() == nil {
		began := time.Now()
		err := h.runResolver(ctx, &sockets)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > resolverSteady {
			pause = resolverPauseMin
		}
		h.log.Error("the resolver of the machines ended, and is started again", "in", pause.String(), "error", err)
		wait(ctx, nil, pause)
		pause = min(2*pause, resolverPauseMax)
	}
	if sockets != nil {
		sockets.Close()
	}
}

// runResolver returns when the process has ended or was ended because it answers no more, or when the context ends: then it lives on.
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
		h.names.beAlone()
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
		<-ended // killed: how it ended says nothing
		return err
	}
}

// untilSilent asks again and again, and returns when there was no answer resolverSilences times one after the other, or the context ends.
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

// startResolver returns when the process serves. Its program is this one, and its rights are those of a user that owns nothing.
func (h *Host) startResolver(sockets network.NameSockets) (*exec.Cmd, *nameLink, error) {
	setup, send, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer setup.Close()
	defer send.Close()
	receive, ready, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer receive.Close()
	defer ready.Close()
	ours, theirs, err := linkPair()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	id := uint32(h.config.ResolverUID)
	process := &exec.Cmd{Path: "/proc/self/exe", Dir: "/", Args: []string{"berth-" + h.config.Instance + "-resolver", resolver.Command},
		Env: []string{"GOTRACEBACK=single"}, Stdin: setup, Stderr: os.Stderr, ExtraFiles: []*os.File{sockets.UDP, sockets.TCP, ready, theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: id, Gid: uint32(h.config.ResolverGID)}}}
	if err := h.router.WherePacketsLeave(process.Start); err != nil {
		return nil, nil, errors.Join(err, ours.Close())
	}
	ready.Close()
	theirs.Close()
	link := &nameLink{conn: ours, gone: make(chan struct{}), waiting: map[uint64]chan struct{}{}, end: func() { _ = process.Process.Kill() }} // it has ended
	if err := h.setUpResolver(process.Process.Pid, link, send, receive); err != nil {
		err = errors.Join(err, process.Process.Kill(), process.Wait())
		h.names.over(link)
		return nil, nil, err
	}
	return process, link, nil
}

// setUpResolver tells it what to do only when it is in its group, so that nothing of it runs outside.
func (h *Host) setUpResolver(pid int, link *nameLink, send, receive *os.File) error {
	group := h.groups.Resolver()
	if err := errors.Join(group.SetLimits(resolverLimits), group.Add(pid)); err != nil {
		return err
	}
	var line []byte
	err := h.names.begin(link, func() (err error) {
		wanted := h.router.NamesSetup()
		wanted.Policies = h.router.Restricted()
		line, err = json.Marshal(wanted)
		return err
	})
	if err != nil {
		return err
	}
	if err := send.SetWriteDeadline(time.Now().Add(resolverReady)); err != nil {
		return err
	}
	if _, err := send.Write(append(line, '\n')); err != nil {
		return err
	}
	if err := receive.SetReadDeadline(time.Now().Add(resolverReady)); err != nil {
		return err
	}
	said, err := io.ReadAll(io.LimitReader(receive, int64(len(resolver.Ready))+1))
	if err != nil || string(said) != resolver.Ready {
		return fmt.Errorf("the resolver did not start: %q: %w", said, errors.Join(err, io.ErrUnexpectedEOF))
	}
	return nil
}
