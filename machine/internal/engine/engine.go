// Package engine runs machines on gVisor. It manages slots and directories, not workspaces and permissions.
package engine

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/cgroup"
	"github.com/berth-dev/berth/machine/internal/network"
	"github.com/berth-dev/berth/machine/internal/ongoing"
)

type Config struct {
	Instance      string
	Runsc         string // engine of new sandboxes; Open stores a copy
	Agent         string
	DataDir       string
	RunDir        string
	HeadroomBytes int64 // memory above the guest's, for the sandbox itself, until SetHeadroom changes it
}

// Size is the CPU and memory that a machine may use.
type Size struct {
	CPUMillis int `json:"cpu_millis"`
	MemoryMiB int `json:"memory_mib"`
}

func (s Size) memoryBytes() int64 { return int64(s.MemoryMiB) << 20 }

// Engine manages one instance's sandboxes.
type Engine struct {
	config   Config
	groups   *cgroup.Tree
	router   *network.Router
	spawn    *spawner
	version  string
	agent    string // SHA-256 of the agent that new sandboxes run
	program  *program
	builds   *programStore // engines by version
	agents   *programStore // agents by SHA-256
	key      []byte
	log      *slog.Logger
	releases ongoing.Group // network releases in the background
	headroom atomic.Int64

	tellsAddresses atomic.Pointer[bool] // whether the engine can change a sandbox's address (builds of machine/runsc can); nil: not tested yet

	mu   sync.Mutex
	held map[string]bool // slots that this process owns; all others are orphans
}

const stderrBytes = "67108864"

func Open(ctx context.Context, config Config, groups *cgroup.Tree, router *network.Router, key []byte, log *slog.Logger) (*Engine, error) {
	e, err := OpenToRemove(ctx, config, groups, router, log)
	if err != nil {
		return nil, err
	}
	e.key = key
	for _, dir := range []string{e.slotsDir(), e.runscRoot(), e.logsDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if err := mountLogs(e.logsDir()); err != nil {
		return nil, err
	}
	return e, e.openPrograms(ctx)
}

func (e *Engine) openPrograms(ctx context.Context) error {
	var err error
	if e.builds, err = openKeep(filepath.Join(e.config.DataDir, "engines"), "runsc"); err != nil {
		return err
	}
	if e.agents, err = openKeep(filepath.Join(e.config.DataDir, "agents"), "agent"); err != nil {
		return err
	}
	if e.version, err = runscVersion(ctx, e.config.Runsc); err != nil {
		return err
	}
	if err := e.storeBuild(e.config.Runsc, e.version); err != nil {
		return fmt.Errorf("keeping the engine: %w", err)
	}
	if e.agent, err = e.storeAgent(e.config.Agent); err != nil {
		return fmt.Errorf("keeping the agent: %w", err)
	}
	if err := e.partAgents(); err != nil {
		return fmt.Errorf("keeping agents apart from slots: %w", err)
	}
	e.program, err = e.sealProgram(e.agent)
	return err
}

// OpenToRemove returns an Engine that supports only RemoveAll. It ends an earlier hostd's runs of runsc first, so that
// they change nothing during the removal.
func OpenToRemove(ctx context.Context, config Config, groups *cgroup.Tree, router *network.Router, log *slog.Logger) (*Engine, error) {
	if err := groups.Commands().Kill(ctx); err != nil {
		return nil, fmt.Errorf("ending leftover runs of runsc: %w", err)
	}
	e := &Engine{config: config, groups: groups, router: router, spawn: newSpawner(groups.Commands()), log: log, held: map[string]bool{}}
	e.SetHeadroom(config.HeadroomBytes)
	return e, nil
}

// Version returns the engine's version. A checkpoint restores only under the version that wrote it.
func (e *Engine) Version() string { return e.version }

// AgentKey derives the key of an agent from the host key, so that no key is stored.
func (e *Engine) AgentKey(slot string, epoch int64) string {
	mac := hmac.New(sha256.New, e.key)
	mac.Write([]byte("agent|" + slot + "|" + strconv.FormatInt(epoch, 10)))
	return hex.EncodeToString(mac.Sum(nil))
}

func (e *Engine) slotsDir() string { return filepath.Join(e.config.DataDir, "slots") }
func (e *Engine) logsDir() string  { return filepath.Join(e.config.RunDir, "logs") }

func mountLogs(dir string) error {
	points, err := MountsBelow(dir)
	if err != nil || len(points) > 0 {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=700,size="+stderrBytes); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	return nil
}

// Wait returns when no network release is running.
func (e *Engine) Wait() { <-e.releases.Idle() }
