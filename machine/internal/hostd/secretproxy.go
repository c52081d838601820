package hostd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"

	"github.com/berth-dev/berth/machine/internal/cgroup"
	"github.com/berth-dev/berth/machine/internal/secretproxy"
)

var proxyLimits = cgroup.Limits{CPUMillis: 2000, MemoryBytes: secretproxy.MemoryBytesMax, Pids: 64}

// hostd owns the sockets, so that connections wait during a restart of the proxy.
type proxySockets struct{ requests, answers *os.File }

// The proxy outlives hostd, and runs until the next hostd starts its own. Without a proxy, all connections to secret
// ports fail.
func (h *Host) keepSecretProxy(ctx context.Context) {
	if h.config.SecretsSocket == "" {
		return
	}
	var sockets *proxySockets
	h.superviseChild(ctx, "the proxy that puts secrets in", func() error { return h.runSecretProxy(ctx, &sockets) })
	if sockets != nil {
		sockets.requests.Close()
		sockets.answers.Close()
	}
}

// runSecretProxy starts the proxy and returns when it ends. If the context ends, the process is not ended.
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
		h.log.Error("an older proxy may still inject secrets", "error", err)
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

// Only the cell's user can answer on this socket: the kernel checks write permission, and the proxy checks the peer's
// uid.
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

func (h *Host) startSecretProxy(sockets proxySockets) (*exec.Cmd, *secretLink, error) {
	roots, err := h.extraRoots()
	if err != nil {
		return nil, nil, err
	}
	wanted := childProcess{
		name:    "secrets",
		command: secretproxy.Command,
		trace:   "none", // a stack trace may show a secret
		uid:     h.config.SecretProxyUID,
		gid:     h.config.SecretProxyGID,
		group:   h.groups.SecretProxy(),
		limits:  proxyLimits,
		sockets: []*os.File{sockets.requests, sockets.answers},
		ready:   secretproxy.Ready,
		where:   h.router.Inside,
	}
	var link *secretLink
	process, err := wanted.start(h.config.Instance, func(conn net.Conn, end func()) (setup []byte, err error) {
		link = newSecretLink(conn, end)
		err = h.secrets.begin(link, func() (err error) {
			setup, err = json.Marshal(secretproxy.Setup{Blocked: h.router.Blocked(), AnswersUID: uint32(h.config.SocketUID), ExtraRoots: roots,
				TrackedMax: h.router.TrackedByProxy(), Machines: h.router.WithSecrets()})
			return err
		})
		return setup, err
	})
	if err != nil {
		if link != nil {
			h.secrets.over(link)
		}
		return nil, nil, err
	}
	return process, link, nil
}

func (h *Host) extraRoots() (string, error) {
	if h.config.SecretsCA == "" {
		return "", nil
	}
	text, err := os.ReadFile(h.config.SecretsCA)
	if err != nil {
		return "", fmt.Errorf("secrets_ca: %w", err)
	}
	return string(text), nil
}
