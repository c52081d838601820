package engine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
)

// SpecVersion grows when arguments, working directory, mounts, capabilities, rlimits or annotations change, because a
// restore refuses a difference from the checkpoint. newSpec must write all versions from SpecVersionMin on. Other
// versions are refused before anything changes.
const (
	SpecVersion    = specVolumes
	SpecVersionMin = 1
	specLayers     = 2 // added /layers
	specVolumes    = 3 // volume files are closed on the host when the guest closes them
)

const (
	shmBytes  = "134217728" // a tmpfs without a size may use half of the host's memory
	tmpBytes  = "268435456" // of the sandbox's /tmp, for guests of older agents; newer ones have /tmp on their disk
	openFiles = 65536
	pidsMax   = 16384 // host threads: the sentry's own and the stubs of the guest's processes
)

type ociSpec struct {
	Version  string     `json:"ociVersion"`
	Process  ociProcess `json:"process"`
	Root     ociRoot    `json:"root"`
	Hostname string     `json:"hostname"`
	Mounts   []ociMount `json:"mounts"`
	Linux    ociLinux   `json:"linux"`
}

type ociProcess struct {
	User         ociUser        `json:"user"`
	Args         []string       `json:"args"`
	Env          []string       `json:"env"`
	Cwd          string         `json:"cwd"`
	Capabilities map[string]any `json:"capabilities"`
	Rlimits      []ociRlimit    `json:"rlimits"`
}

type ociUser struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

type ociRlimit struct {
	Type string `json:"type"`
	Hard uint64 `json:"hard"`
	Soft uint64 `json:"soft"`
}

type ociRoot struct {
	Path string `json:"path"`
}

type ociMount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options,omitempty"`
}

type ociNamespace struct {
	Type string `json:"type"`
	Path string `json:"path,omitempty"`
}

type ociLinux struct {
	CgroupsPath string         `json:"cgroupsPath"`
	Resources   map[string]any `json:"resources"`
	Namespaces  []ociNamespace `json:"namespaces"`
}

func writeSpec(bundle string, version int, netns, cgroupsPath string, size Size) error {
	text, err := json.Marshal(newSpec(bundle, version, netns, cgroupsPath, size))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o600)
}

func newSpec(bundle string, version int, netns, cgroupsPath string, size Size) ociSpec {
	return ociSpec{
		Version: "1.1.0",
		Process: ociProcess{
			Args: []string{"/agent"},
			Env:  []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"},
			Cwd:  "/",
			// The guest's root needs all capabilities. They apply only inside the user-space kernel, not on the host.
			Capabilities: map[string]any{"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
			Rlimits:      []ociRlimit{{Type: "RLIMIT_NOFILE", Hard: openFiles, Soft: openFiles}},
		},
		Root:     ociRoot{Path: filepath.Join(bundle, "root")},
		Hostname: "machine",
		Mounts:   mounts(bundle, version),
		Linux: ociLinux{
			CgroupsPath: cgroupsPath,
			Resources:   map[string]any{"memory": map[string]any{"limit": size.memoryBytes()}},
			Namespaces: []ociNamespace{{Type: "pid"}, {Type: "ipc"}, {Type: "uts"}, {Type: "mount"},
				{Type: "network", Path: netns}},
		},
	}
}

func mounts(bundle string, version int) []ociMount {
	list := []ociMount{
		{Destination: "/proc", Type: "proc", Source: "proc"},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "nodev", "mode=1777", "size=" + shmBytes}},
		{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777", "size=" + tmpBytes}},
		{Destination: "/volumes", Type: "bind", Source: filepath.Join(bundle, "volumes"), Options: volumeOptions(version)},
	}
	if version < specLayers {
		return list
	}
	// The engine revalidates a separate mount. The guest changes the upper layer through another one.
	return append(list, ociMount{Destination: "/layers", Type: "bind", Source: filepath.Join(bundle, "layers"), Options: []string{"rbind", "ro"}})
}

// dcache=0 disables the cache of open files, which would prevent an unmount after the guest released the volume.
func volumeOptions(version int) []string {
	if version < specVolumes {
		return []string{"rbind", "rw"}
	}
	return []string{"rbind", "rw", "dcache=0"}
}

// Capabilities returns the capabilities of the guest's first process.
func Capabilities() []string { return slices.Clone(capabilities) }

var capabilities = []string{
	"CAP_AUDIT_CONTROL", "CAP_AUDIT_READ", "CAP_AUDIT_WRITE", "CAP_BLOCK_SUSPEND", "CAP_BPF", "CAP_CHECKPOINT_RESTORE", "CAP_CHOWN",
	"CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_IPC_LOCK", "CAP_IPC_OWNER", "CAP_KILL", "CAP_LEASE",
	"CAP_LINUX_IMMUTABLE", "CAP_MAC_ADMIN", "CAP_MAC_OVERRIDE", "CAP_MKNOD", "CAP_NET_ADMIN", "CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST",
	"CAP_PERFMON", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYSLOG", "CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_CHROOT",
	"CAP_SYS_MODULE", "CAP_SYS_NICE", "CAP_SYS_PACCT", "CAP_SYS_PTRACE", "CAP_SYS_RAWIO", "CAP_SYS_RESOURCE", "CAP_SYS_TIME",
	"CAP_SYS_TTY_CONFIG", "CAP_WAKE_ALARM",
}
