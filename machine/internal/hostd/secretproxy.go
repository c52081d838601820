package hostd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/berth-dev/berth/machine/internal/cgroup"
	"github.com/berth-dev/berth/machine/internal/secretproxy"
)

const (
	proxyPauseMin = 100 * time.Millisecond
	proxyPauseMax = 10 * time.Second
	proxySteady   = time.Minute // one that ran so long is started again at once
	proxyReady    = time.Minute
)

var proxyLimits = cgroup.Limits{CPUMillis: 2000, MemoryBytes: secretproxy.MemoryBytesMax, Pids: 64}

// proxySockets are where the proxy is reached: by machines, inside the router, and by the cell. They are hostd's, so that what comes while
// it is started again waits.
type proxySockets struct{ requests, answers *os.File }

// keepSecretProxy starts the process and starts it again whenever it dies. It lives on when hostd ends, and serves until the next hostd has started
// another. Without it no connection to a port of a machine's secrets is made, with or without a secret.
func (h *Host) keepSecretProxy(ctx context.Context) {
	if h.config.SecretsSocket == "" {
		return
	}
	pause := proxyPauseMin
	var sockets *proxySockets
	for ctx.Err() == nil {
		began := time.Now()
		err := h.runSecretProxy(ctx, &sockets)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > proxySteady {
			pause = proxyPauseMin
		}
		h.log.Error("the proxy that puts secrets in ended, and is started again", "in", pause.String(), "error", err)
		wait(ctx, nil, pause)
		pause = min(2*pause, proxyPauseMax)
	}
	if sockets != nil {
		sockets.requests.Close()
		sockets.answers.Close()
	}
}

// runSecretProxy returns when the process has ended, or when the context ends: then it lives on.
func (h *Host) runSecretProxy(ctx context.Context, sockets **proxySockets) error {
	if *sockets == nil {
		made, err := h.listenForSecrets()
		if err != nil {
			return err
		}
		*sockets = made
	}
	process, link, err := h.startSecretProxy(**sockets)
	if err != nil {
		return err
	}
	if err := h.groups.SecretProxy().EndOthers(process.Process.Pid); err != nil {
		h.log.Error("an older proxy may still put secrets in", "error", err)
	} else {
		h.secrets.beAlone()
	}
	ended := make(chan error, 1)
	go func() {
		err := process.Wait()
		h.secrets.over(link)
		ended <- err
	}()
	go link.listen()
	select {
	case err := <-ended:
		return errors.Join(err, errors.New("its process ended"))
	case <-ctx.Done():
		return nil
	}
}

func (h *Host) listenForSecrets() (*proxySockets, error) {
	requests, err := h.router.ListenForSecrets()
	if err != nil {
		return nil, err
	}
	answers, err := h.listenForAnswers()
	if err != nil {
		requests.Close()
		return nil, err
	}
	return &proxySockets{requests, answers}, nil
}

// listenForAnswers makes a socket that only the cell's user connects to: the kernel asks for its right to write there, and the proxy for its id.
func (h *Host) listenForAnswers() (*os.File, error) {
	path := h.config.SecretsSocket
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := errors.Join(os.Chown(path, 0, h.config.SocketGID), os.Chmod(path, 0o660)); err != nil {
		return nil, err
	}
	return listener.(*net.UnixListener).File()
}

// startSecretProxy returns when the process serves. Its program is this one, and its rights are those of a user that owns nothing.
func (h *Host) startSecretProxy(sockets proxySockets) (*exec.Cmd, *secretLink, error) {
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
	process := &exec.Cmd{Path: "/proc/self/exe", Dir: "/", Args: []string{"berth-" + h.config.Instance + "-secrets", secretproxy.Command},
		Env: []string{"GOTRACEBACK=none"}, Stdin: setup, Stderr: os.Stderr, ExtraFiles: []*os.File{sockets.requests, sockets.answers, ready, theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uint32(h.config.SecretProxyUID), Gid: uint32(h.config.SecretProxyGID)}}}
	if err := h.router.Inside(process.Start); err != nil {
		return nil, nil, errors.Join(err, ours.Close())
	}
	ready.Close()
	theirs.Close()
	link := newSecretLink(ours, func() { _ = process.Process.Kill() }) // it has ended
	if err := h.setUpSecretProxy(process.Process.Pid, link, send, receive); err != nil {
		err = errors.Join(err, process.Process.Kill(), process.Wait())
		h.secrets.over(link)
		return nil, nil, err
	}
	return process, link, nil
}

// setUpSecretProxy tells it what to do only when it is in its group, so that nothing of it runs outside.
func (h *Host) setUpSecretProxy(pid int, link *secretLink, send, receive *os.File) error {
	group := h.groups.SecretProxy()
	if err := errors.Join(group.SetLimits(proxyLimits), group.Add(pid)); err != nil {
		return err
	}
	roots := ""
	if h.config.SecretsCA != "" {
		text, err := os.ReadFile(h.config.SecretsCA)
		if err != nil {
			return fmt.Errorf("secrets_ca: %w", err)
		}
		roots = string(text)
	}
	var line []byte
	err := h.secrets.begin(link, func() (err error) {
		line, err = json.Marshal(secretproxy.Setup{Blocked: h.router.Blocked(), AnswersUID: uint32(h.config.SocketUID), ExtraRoots: roots,
			Machines: h.router.WithSecrets()})
		return err
	})
	if err != nil {
		return err
	}
	if err := send.SetWriteDeadline(time.Now().Add(proxyReady)); err != nil {
		return err
	}
	if _, err := send.Write(append(line, '\n')); err != nil {
		return err
	}
	if err := receive.SetReadDeadline(time.Now().Add(proxyReady)); err != nil {
		return err
	}
	said, err := io.ReadAll(io.LimitReader(receive, int64(len(secretproxy.Ready))+1))
	if err != nil || string(said) != secretproxy.Ready {
		return fmt.Errorf("the proxy that puts secrets in did not start: %q: %w", said, errors.Join(err, io.ErrUnexpectedEOF))
	}
	return nil
}
