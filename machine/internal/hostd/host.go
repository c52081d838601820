// Package hostd is the root process of one computer. It manages machines, disks, checkpoints and networks through verbs
// on a unix socket. Its only state is files named by id and epoch. After a crash the next hostd inspects the real
// objects to find out which steps were done.
package hostd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/cgroup"
	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/layers"
	"github.com/berth-dev/berth/machine/internal/network"
	"github.com/berth-dev/berth/machine/internal/pool"
	"github.com/berth-dev/berth/machine/internal/wire"
)

type Host struct {
	config     Config
	log        *slog.Logger
	pool       *pool.Pool
	layers     *layers.Store
	listings   listings
	groups     *cgroup.Tree
	router     *network.Router
	engine     *engine.Engine
	jobs       *jobs
	owner      *installation
	listed     manifestCache
	events     *events
	points     failpoints
	key        []byte
	hostBootID string
	processor  processor
	stock      warmPool
	warm       warmImages
	sweeper    sweeper
	reads      diskReads
	resolver   resolverState
	names      *resolverLink
	secrets    *secretLinks
	policing   policing
	rooms      diskCapacity
	volumes    volumes
	balancing  sync.Mutex

	mu       sync.Mutex
	machines map[string]*engine.Sandbox
	making   map[string]wire.Resources // workspaces whose machine is being made
	dead     map[string][]*engine.Sandbox
	stopping map[*engine.Sandbox]bool
	last     lastCounters
}

// Open also adopts running sandboxes and removes orphans.
func Open(ctx context.Context, config Config, log *slog.Logger, failpointsEnabled bool) (*Host, error) {
	h := &Host{config: config, log: log, machines: map[string]*engine.Sandbox{}, making: map[string]wire.Resources{},
		dead: map[string][]*engine.Sandbox{}, stopping: map[*engine.Sandbox]bool{}, names: newNames(), secrets: newSecretLinks(config.SecretsSocket != "")}
	h.points.enabled, h.points.set = failpointsEnabled, config.Failpoints
	for _, dir := range []string{config.DataDir, config.RunDir, filepath.Join(config.DataDir, "keys")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if err := h.openParts(ctx); err != nil {
		return nil, err
	}
	fences, err := openFences(filepath.Join(config.DataDir, "fences"))
	if err != nil {
		return nil, err
	}
	if h.jobs, err = newJobs(fences); err != nil {
		return nil, err
	}
	if h.owner, err = openInstallation(config.Pool.Mount); err != nil {
		return nil, err
	}
	h.events = newEvents(randomName())
	h.stock.init(h)
	if err := h.adopt(ctx); err != nil {
		return nil, fmt.Errorf("adopting what runs: %w", err)
	}
	h.balance()
	if err := h.sweepFiles(ctx); err != nil {
		h.log.Error("not all orphans could be removed", "error", err) // machines need hostd, so it runs, and the next sweep tries again
	}
	return h, nil
}

func (h *Host) openParts(ctx context.Context) error {
	c := h.config
	var err error
	if h.key, err = hostKey(filepath.Join(c.DataDir, "keys", "host.key")); err != nil {
		return fmt.Errorf("host key: %w", err)
	}
	if h.hostBootID, err = readLine("/proc/sys/kernel/random/boot_id"); err != nil {
		return err
	}
	if h.processor, err = thisProcessor(); err != nil {
		return err
	}
	if h.groups, err = cgroup.Open(c.Instance); err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	if err := h.groups.Service().Add(os.Getpid()); err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	h.boundMemory()
	h.pool, err = pool.Open(ctx, pool.Config{Image: c.Pool.Image, Mount: c.Pool.Mount, SizeBytes: c.Pool.SizeBytes, ReserveBytes: c.Pool.ReserveBytes})
	if err != nil {
		return fmt.Errorf("pool: %w", err)
	}
	h.volumes.storage = h.pool
	h.layers = layers.Open(c.LayersDir)
	h.layers.KeepFree(c.DataReserveBytes)
	if err := h.openDiskReads(); err != nil {
		return fmt.Errorf("readers of disks: %w", err)
	}
	if h.router, err = network.Open(ctx, networkConfig(c)); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	h.secrets.adopt(h.router.WithSecrets())
	h.names.isLetOut = h.router.IsLetOut
	h.router.OnRelease(func(machine netip.Addr) {
		h.names.forget(machine)
		h.secrets.forget(machine)
	})
	h.router.ReleaseInTurn(h.policing.lock)
	if h.engine, err = engine.Open(ctx, engineConfig(c), h.groups, h.router, h.key, h.log); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}

func networkConfig(c Config) network.Config {
	return network.Config{Instance: c.Instance, MachineNetwork: c.MachineNetwork, Uplink: c.Uplink, RunDir: c.runPath("net"), Resolvers: c.Resolvers,
		Firewall: c.Firewall, Callers: c.CallerUIDs}
}

func engineConfig(c Config) engine.Config {
	return engine.Config{Instance: c.Instance, Runsc: c.Runsc, Agent: c.Agent, DataDir: c.DataDir, RunDir: c.RunDir,
		HeadroomBytes: int64(c.MemoryHeadroomMiB) << 20}
}

// hostKey reads the key from which agent keys and manifest seals are derived, or makes it.
func hostKey(path string) ([]byte, error) {
	key, err := os.ReadFile(path)
	if err == nil && len(key) == 32 {
		return key, nil
	}
	if err == nil {
		return nil, errors.New("the file is not 32 bytes long")
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	key = make([]byte, 32)
	rand.Read(key)
	return key, writeDurably(path, key)
}

// writeDurably replaces a file atomically: even after a power cut, the file has the old or the new content.
func writeDurably(path string, content []byte) error {
	temporary := path + ".tmp"
	file, err := os.OpenFile(temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		os.Remove(temporary)
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return pool.SyncDir(filepath.Dir(path))
}

func readLine(path string) (string, error) {
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}

func randomName() string {
	var random [8]byte
	rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

func stamp(now time.Time) string { return now.UTC().Format("2006-01-02T15:04:05.000Z") }
