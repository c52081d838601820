package hostd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/network"
)

// Config is hostd's configuration file. An unknown setting is an error.
type Config struct {
	Instance       string       `json:"instance"` // 4 hex digits, part of the name of every kernel object
	DataDir        string       `json:"data_dir"`
	RunDir         string       `json:"run_dir"`
	Socket         string       `json:"socket"`
	SocketUID      int          `json:"socket_uid"` // the only user besides root whose connections hostd accepts
	SocketGID      int          `json:"socket_gid"`
	Runsc          string       `json:"runsc"`
	Agent          string       `json:"agent"`
	MachineNetwork netip.Prefix `json:"machine_network"`
	Uplink         string       `json:"uplink"`
	Resolvers      []string     `json:"resolvers"`
	ResolverUID    int          `json:"resolver_uid,omitempty"` // user of the DNS resolver process; 0: "nobody"
	ResolverGID    int          `json:"resolver_gid,omitempty"`
	CallerUIDs     []uint32     `json:"caller_uids,omitempty"` // local users that may connect to machines; empty: all
	Firewall       string       `json:"firewall,omitempty"`    // auto (the default) or manual
	Pool           PoolConfig   `json:"pool"`
	LayersDir      string       `json:"layers_dir"`
	// DataReserveBytes is left free for PostgreSQL on the file system of DataDir and LayersDir.
	DataReserveBytes int64          `json:"data_reserve_bytes,omitempty"`
	Slots            SlotsConfig    `json:"slots"`
	Shells           ShellsConfig   `json:"shells"`
	Capacity         CapacityConfig `json:"capacity"`
	// SecretsSocket is the socket for the cell's answers; "" disables secret injection.
	SecretsSocket  string `json:"secrets_socket,omitempty"`
	SecretProxyUID int    `json:"secret_proxy_uid,omitempty"` // user of the secret proxy; 0: "nobody"
	SecretProxyGID int    `json:"secret_proxy_gid,omitempty"`
	// SecretsCA is a PEM file that the proxy trusts besides the host's authorities.
	SecretsCA string `json:"secrets_ca,omitempty"`
	// MemoryHeadroomMiB is a machine's maximum beyond its guest's memory, MemoryHeadroomMinMiB what is guaranteed.
	MemoryHeadroomMiB    int `json:"memory_headroom_mib"`
	MemoryHeadroomMinMiB int `json:"memory_headroom_min_mib,omitempty"`
	// MachinesMemoryMiB bounds the memory of all machines together, including headroom; 0: no bound.
	MachinesMemoryMiB int `json:"machines_memory_mib,omitempty"`
	// EnginesRefused lists engines under which nothing is started or restored; "others" means all but the current one.
	EnginesRefused []string   `json:"engines_refused,omitempty"`
	SweepSeconds   int        `json:"sweep_seconds,omitempty"` // interval of the orphan sweep
	Failpoints     Failpoints `json:"failpoints,omitempty"`    // refused without --enable-failpoints
}

type PoolConfig struct {
	Image        string `json:"image"`
	Mount        string `json:"mount"`
	SizeBytes    int64  `json:"size_bytes"`
	ReserveBytes int64  `json:"reserve_bytes"`
}

type SlotsConfig struct {
	Count     int `json:"count"`
	CPUMillis int `json:"cpu_millis"`
	MemoryMiB int `json:"memory_mib"`
}

type ShellsConfig struct {
	Count int `json:"count"`
}

// CapacityConfig is the capacity for all machines together; 0 means all that the computer has. DiskGiB may exceed the
// pool, because disks are thin-provisioned. Only the cell counts it.
type CapacityConfig struct {
	CPUMillis int `json:"cpu_millis"`
	MemoryMiB int `json:"memory_mib"`
	DiskGiB   int `json:"disk_gib"`
}

const (
	nobody            = 65534
	slotsMax          = 64
	processesMax      = 1024    // maximum of a guest, enforced by its agent: each process costs the sandbox half a MiB that it never releases
	retainedOutputMax = 2 << 30 // bytes for all sessions of a workspace; a quarter of its disk if that is less
)

var instancePattern = regexp.MustCompile(`^[0-9a-f]{4}$`)

func ReadConfig(path string) (Config, error) {
	var config Config
	text, err := os.ReadFile(path)
	if err != nil {
		return config, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		return config, fmt.Errorf("%s: %w", path, err)
	}
	if err := config.check(); err != nil {
		return config, fmt.Errorf("%s: %w", path, err)
	}
	return config, config.fromHost()
}

func (c *Config) check() error {
	var wrong []error
	expect := func(ok bool, message string) {
		if !ok {
			wrong = append(wrong, errors.New(message))
		}
	}
	expect(instancePattern.MatchString(c.Instance), "instance is 4 hex digits")
	for name, path := range map[string]string{"data_dir": c.DataDir, "run_dir": c.RunDir, "socket": c.Socket, "runsc": c.Runsc,
		"agent": c.Agent, "layers_dir": c.LayersDir, "pool.mount": c.Pool.Mount} {
		expect(filepath.IsAbs(path) && filepath.Clean(path) == path && !strings.ContainsAny(path, ":,\\"), name+" is a plain absolute path")
	}
	expect(c.Pool.Image == "" || filepath.IsAbs(c.Pool.Image), "pool.image is an absolute path or empty")
	expect(c.DataReserveBytes >= 0, "data_reserve_bytes is not negative")
	expect(c.Pool.ReserveBytes >= 0 && c.Pool.SizeBytes >= 0, "pool sizes are not negative")
	expect(c.Slots.Count >= 0 && c.Slots.Count <= slotsMax, "slots.count is 0 to 64")
	expect(c.Shells.Count >= 0 && c.Shells.Count <= slotsMax, "shells.count is 0 to 64")
	expect(c.Slots.CPUMillis >= 100 && c.Slots.MemoryMiB >= memoryMin, "slots.cpu_millis and slots.memory_mib are needed")
	expect(min(c.Capacity.CPUMillis, c.Capacity.MemoryMiB, c.Capacity.DiskGiB) >= 0, "capacity is not negative")
	expect(c.MemoryHeadroomMiB >= 0 && c.MemoryHeadroomMiB <= 4096, "memory_headroom_mib is 0 to 4096")
	expect(c.SecretProxyUID >= 0 && c.SecretProxyGID >= 0, "secret_proxy_uid and secret_proxy_gid are not negative")
	expect(c.ResolverUID >= 0 && c.ResolverGID >= 0, "resolver_uid and resolver_gid are not negative")
	expect(c.MemoryHeadroomMinMiB >= 0 && c.MemoryHeadroomMinMiB <= c.MemoryHeadroomMiB, "memory_headroom_min_mib is 0 to memory_headroom_mib")
	expect(c.MachinesMemoryMiB >= 0, "machines_memory_mib is not negative")
	expect(slices.Contains([]string{"", network.FirewallAuto, network.FirewallManual}, c.Firewall), "firewall is auto or manual")
	expect(c.SweepSeconds >= 0 && c.SweepSeconds <= 3600, "sweep_seconds is 0 to 3600")
	for _, version := range c.EnginesRefused {
		expect(engine.IsVersion(version), "engines_refused names versions of engines")
	}
	return errors.Join(wrong...)
}

// fromHost fills in missing values. It reserves an eighth of the memory, at least 512 MiB, for the service.
func (c *Config) fromHost() error {
	if c.SweepSeconds == 0 {
		c.SweepSeconds = 30
	}
	if c.ResolverUID == 0 || c.ResolverGID == 0 {
		c.ResolverUID, c.ResolverGID = nobody, nobody
	}
	if c.SecretProxyUID == 0 || c.SecretProxyGID == 0 {
		c.SecretProxyUID, c.SecretProxyGID = nobody, nobody
	}
	if c.Capacity.CPUMillis == 0 {
		c.Capacity.CPUMillis = runtime.NumCPU() * 1000
	}
	if c.Capacity.MemoryMiB == 0 {
		total, err := hostMemoryMiB()
		if err != nil {
			return err
		}
		c.Capacity.MemoryMiB = max(0, total-max(total/8, 512))
	}
	return nil
}

func hostMemoryMiB() (int, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(text), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "MemTotal:" {
			kib, err := strconv.Atoi(fields[1])
			return kib >> 10, err
		}
	}
	return 0, errors.New("/proc/meminfo has no MemTotal")
}

func (c *Config) runPath(name string) string { return filepath.Join(c.RunDir, name) }
