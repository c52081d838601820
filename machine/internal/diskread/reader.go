// Package diskread reads a workspace's disk without its machine. It runs the agent's binary in separate namespaces with
// the read-only disk as the only file system. internal/agent/jail lists the privileges that the reader drops.
package diskread

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/machine/internal/cgroup"
	"github.com/berth-dev/berth/machine/internal/layers"
	"github.com/berth-dev/berth/machine/internal/wire"
)

type Config struct {
	Instance  string
	Dir       string // for sockets and mount points; Open makes it
	SocketUID int
	Idle      time.Duration
}

// Starter starts readers on one thread. When hostd and so that thread ends, the kernel kills the readers.
type Starter struct {
	config Config
	groups *cgroup.Tree
	starts chan start
	count  atomic.Int64
}

// memoryBytes must be enough for the memory limit that the agent sets itself.
const (
	CPUMillisMax = 1000
	memoryBytes  = 256 << 20
	pidsMax      = 64
)

const (
	readySecondsMax = 10
	awakeSecondsMax = 2
	reasonBytesMax  = 1 << 10
)

// Open removes the sockets of an earlier hostd. The engine ends that hostd's readers when it removes orphaned cgroups.
func Open(config Config, groups *cgroup.Tree) (*Starter, error) {
	if err := os.RemoveAll(config.Dir); err != nil {
		return nil, err
	}
	for _, dir := range []string{config.Dir, filepath.Join(config.Dir, "root"), filepath.Join(config.Dir, "empty")} {
		if err := os.Mkdir(dir, 0o711); err != nil {
			return nil, err
		}
	}
	s := &Starter{config: config, groups: groups, starts: make(chan start)}
	go s.run()
	return s, nil
}

func (s *Starter) Empty() string { return filepath.Join(s.config.Dir, "empty") }

// MountPoint is the directory at which readers mount the disk in their own mount namespaces.
func (s *Starter) MountPoint() string { return filepath.Join(s.config.Dir, "root") }

type Reader struct {
	Access  wire.DiskReader
	command *exec.Cmd
	hold    *os.File // the reader ends when hostd closes this pipe
	group   *cgroup.Group
	done    chan struct{}
}

type Disk struct {
	Open      func() (*os.File, error) // returns a detached read-only mount
	CPUMillis int                      // CPU limit of the reader
}

// Hibernated describes the disk of a workspace without a machine. The directories are ordered topmost first.
func (s *Starter) Hibernated(lower []string) Disk {
	return Disk{CPUMillis: CPUMillisMax, Open: func() (*os.File, error) { return layers.Detached(lower, s.MountPoint()) }}
}

// Start returns when the reader answers requests.
func (s *Starter) Start(ctx context.Context, agent *os.File, disk Disk) (*Reader, error) {
	name := "read-" + strings.ToLower(rand.Text()[:12])
	limits := cgroup.Limits{CPUMillis: min(disk.CPUMillis, CPUMillisMax), MemoryBytes: memoryBytes, Pids: pidsMax}
	group, err := s.groups.Create(name, limits)
	if err != nil {
		return nil, err
	}
	r := &Reader{group: group, done: make(chan struct{}), Access: wire.DiskReader{
		Address: filepath.Join(s.config.Dir, name), AgentKey: rand.Text() + rand.Text(), Epoch: s.count.Add(1),
	}}
	if err := s.launch(r, agent, disk); err != nil {
		return nil, errors.Join(err, r.End(ctx))
	}
	return r, nil
}

func (s *Starter) launch(r *Reader, agent *os.File, from Disk) error {
	socket, err := s.listen(r.Access.Address)
	if err != nil {
		return err
	}
	defer socket.Close()
	disk, err := from.Open()
	if err != nil {
		return err
	}
	defer disk.Close()
	setup, hold, err := os.Pipe()
	if err != nil {
		return err
	}
	defer setup.Close()
	r.hold = hold
	answer, ready, err := os.Pipe()
	if err != nil {
		return err
	}
	defer answer.Close()
	command := &exec.Cmd{Path: fmt.Sprintf("/proc/self/fd/%d", wire.DiskReaderAgentFD), Dir: "/",
		Args: []string{"berth-" + s.config.Instance + "-disk-reader", "read-disk"},
		Env:  []string{"GOTRACEBACK=none"}, ExtraFiles: []*os.File{setup, ready, socket, disk, agent}}
	err = s.start(command)
	ready.Close()
	if err != nil {
		return err
	}
	r.command = command
	go func() {
		_ = command.Wait() // an error means that it was killed or ended when idle, which is expected
		close(r.done)
	}()
	// The reader does nothing before it gets its setup, so no work happens outside the cgroup.
	if err := r.group.Add(command.Process.Pid); err != nil {
		return err
	}
	return s.setUp(r, answer)
}

func (s *Starter) setUp(r *Reader, answer *os.File) error {
	line, err := json.Marshal(wire.DiskReaderSetup{MountPoint: s.MountPoint(), Key: r.Access.AgentKey, Epoch: r.Access.Epoch,
		IdleMS: s.config.Idle.Milliseconds()})
	if err != nil {
		return err
	}
	if _, err := r.hold.Write(append(line, '\n')); err != nil {
		return err
	}
	if err := answer.SetReadDeadline(time.Now().Add(readySecondsMax * time.Second)); err != nil {
		return err
	}
	said, err := io.ReadAll(io.LimitReader(answer, reasonBytesMax))
	if err != nil || string(said) != wire.DiskReaderReady {
		return fmt.Errorf("the reader did not start: %q: %w", said, errors.Join(err, io.ErrUnexpectedEOF))
	}
	return nil
}

func (s *Starter) listen(path string) (*os.File, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	listener.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(path, 0o600), os.Chown(path, s.config.SocketUID, -1)); err != nil {
		return nil, err
	}
	return listener.File()
}

func (r *Reader) Done() <-chan struct{} { return r.done }

// Awake asks the reader whether it still runs, and restarts its idle time.
func (r *Reader) Awake(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, awakeSecondsMax*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://reader/awake", nil)
	if err != nil {
		return false
	}
	request.Header.Set("Authorization", "Bearer "+r.Access.AgentKey)
	request.Header.Set("X-Berth-Epoch", strconv.FormatInt(r.Access.Epoch, 10))
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", r.Access.Address)
	}}}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusNoContent
}

// End returns when the process, its cgroup and the disk's mount are gone. It can be repeated after a failure.
func (r *Reader) End(ctx context.Context) error {
	if r.hold != nil {
		r.hold.Close()
	}
	if r.command != nil {
		_ = r.command.Process.Kill()
		select {
		case <-r.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := os.Remove(r.Access.Address); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return errors.Join(r.group.Kill(ctx), r.group.Delete())
}
