// Package secretproxy puts secrets into requests. It parses input of hostile guests and servers, and no guest may read
// its memory, so it runs as an unprivileged process. It puts no secret into a connection whose content it cannot read.
package secretproxy

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/berth-dev/berth/machine/internal/agent/jail"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// Command is the argument with which hostd's program runs this process.
const Command = "put-in-secrets"

// Setup is the first line of the process's input.
type Setup struct {
	Blocked []netip.Prefix `json:"blocked"` // networks that no machine may reach
	// AnswersUID is the cell's user, the only one whose answers are accepted.
	AnswersUID uint32 `json:"answers_uid"`
	// ExtraRoots is PEM: authorities that are trusted in addition to the host's.
	ExtraRoots string `json:"extra_roots,omitempty"`
	// TrackedMax limits all machines' server connections, including ended ones that the kernel still tracks.
	TrackedMax int                           `json:"tracked_max,omitempty"`
	Machines   map[netip.Addr]wire.SecretsOf `json:"machines"`
}

const (
	requestsFD = 3 + iota // listener for machines' connections
	answersFD             // listener for the cell
	readyFD
	linkFD // connection to hostd
)

// Ready is the only message on readyFD. The process sends it when it is able to serve.
const Ready = "ready"

const (
	// MemoryBytesMax is the cgroup's limit. Go's soft limit is three quarters of it.
	MemoryBytesMax = 512 << 20
	openFilesMax   = 1 << 16
)

// Run is the process. The parent must have dropped all privileges of it.
func Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	debug.SetMemoryLimit(MemoryBytesMax / 4 * 3)
	setup, err := readSetup()
	if err != nil {
		return err
	}
	proxy, err := newProxy(setup)
	if err != nil {
		return err
	}
	link, err := net.FileConn(os.NewFile(linkFD, "link"))
	if err != nil {
		return err
	}
	requests, err := net.FileListener(os.NewFile(requestsFD, "requests"))
	if err != nil {
		return err
	}
	answers, err := net.FileListener(os.NewFile(answersFD, "answers"))
	if err != nil {
		return err
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	proxy.budget.fit(int(min(openFilesMax, files.Max)))
	if err := jail.OnlyNetwork(openFilesMax); err != nil {
		return err
	}
	ready := os.NewFile(readyFD, "ready")
	if _, err := ready.WriteString(Ready); err != nil {
		return err
	}
	ready.Close()
	return proxy.serve(ctx, requests, answers, link)
}

func readSetup() (setup Setup, err error) {
	line, err := bufio.NewReader(os.Stdin).ReadBytes('\n')
	if err != nil {
		return setup, fmt.Errorf("read the setup: %w", err)
	}
	if err := json.Unmarshal(line, &setup); err != nil {
		return setup, fmt.Errorf("read the setup: %w", err)
	}
	return setup, os.Stdin.Close()
}

func newProxy(setup Setup) (*Proxy, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		slog.Warn("this host has no authorities: only those of the settings are believed", "error", err)
		roots = x509.NewCertPool()
	}
	if setup.ExtraRoots != "" && !roots.AppendCertsFromPEM([]byte(setup.ExtraRoots)) {
		return nil, errors.New("the file of further certificate authorities holds no certificate")
	}
	proxy := New(roots, setup.Blocked, setup.AnswersUID, setup.Machines)
	if setup.TrackedMax > 0 {
		proxy.tracked.Together = setup.TrackedMax
	}
	return proxy, nil
}
