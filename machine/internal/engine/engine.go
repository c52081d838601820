// Package engine runs machines on gVisor: sandboxes started ahead of need, claims, checkpoints and restores. It knows slots and
// directories; what a workspace is, and who may ask for what, is hostd's.
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

// Config is where things are and how large machines may grow beyond what they are told.
type Config struct {
	Instance      string
	Runsc         string // what is started anew runs under; a copy is kept
	Agent         string // path of the agent's binary
	DataDir       string
	RunDir        string
	HeadroomBytes int64 // above the told memory, for the sandbox's own needs, until SetHeadroom says otherwise
}

// Size is what is fixed when a sandbox starts.
type Size struct {
	CPUMillis int `json:"cpu_millis"`
	MemoryMiB int `json:"memory_mib"`
}

func (s Size) memoryBytes() int64 { return int64(s.MemoryMiB) << 20 }

// Engine is the sandboxes of one instance on this computer.
type Engine struct {
	config   Config
	groups   *cgroup.Tree
	router   *network.Router
	spawn    *spawner
	version  string
	agent    string // SHA-256 of the agent that new slots run
	program  *program
	builds   *keep // engines by version
	agents   *keep // by SHA-256
	key      []byte
	log      *slog.Logger
	releases ongoing.Group // of networks
	headroom atomic.Int64  // bytes

	tellsAddresses atomic.Pointer[bool] // the engine can tell a shell another address: one that machine/runsc built; nil: nobody has asked

	mu   sync.Mutex
	held map[string]bool // slots that this process has in hand: all others are strays
}

// stderrBytes bounds what all sandboxes together may write to their stderr.
const stderrBytes = "67108864"

// Open prepares the engine.
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

// openPrograms keeps what this hostd was given, beside what earlier ones were.
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

// OpenToRemove is enough for RemoveAll: it needs neither runsc nor an agent. Command-line runs of runsc that an earlier hostd left
// behind end here, before anybody looks at what is there.
func OpenToRemove(ctx context.Context, config Config, groups *cgroup.Tree, router *network.Router, log *slog.Logger) (*Engine, error) {
	if err := groups.Commands().Kill(ctx); err != nil {
		return nil, fmt.Errorf("ending leftover runs of runsc: %w", err)
	}
	e := &Engine{config: config, groups: groups, router: router, spawn: newSpawner(groups.Commands()), log: log, held: map[string]bool{}}
	e.SetHeadroom(config.HeadroomBytes)
	return e, nil
}

// Version is the full version of the engine that is started anew: a checkpoint restores under the one that wrote it.
func (e *Engine) Version() string { return e.version }

// AgentKey is the key of one incarnation of a slot. It follows from the host's key, so nothing is stored.
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

// Wait returns when no network is being released any more.
func (e *Engine) Wait() { <-e.releases.Idle() }
