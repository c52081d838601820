// Package identity writes the service's files in the guest's /etc, empties /tmp, and renews the boot id.
package identity

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	textMode      = 0o644
	machineIDMode = 0o444
	hostsBytesMax = 64 << 10
	etcEntriesMax = 4096
)

// Apply continues after an error, because the guest may have made any of the files unwritable.
func Apply(r *guestroot.Root, stateDir string, in wire.Incarnation) error {
	var failed []error
	if in.Hostname != "" {
		failed = append(failed, unix.Sethostname([]byte(in.Hostname)))
		failed = append(failed, replace(r, "hostname", hostname(in), textMode))
		failed = append(failed, replace(r, "hosts", hosts(r, in), textMode))
	}
	if in.Nameserver != "" {
		failed = append(failed, replace(r, "resolv.conf", resolver(in), textMode))
	}
	if in.RenewIdentity {
		failed = append(failed, removeHostKeys(r))
	}
	failed = append(failed, renewMachineID(r, stateDir, in), renewBootID(stateDir, in))
	return errors.Join(failed...)
}

// Continue writes no files, because the disk already has the workspace's identity.
func Continue(in wire.Incarnation) error { return unix.Sethostname([]byte(in.Hostname)) }

// marker records for which workspace the machine-id was made: workspaces must not share their template's machine-id.
type marker struct {
	WorkspaceID string `json:"workspace_id"`
	MachineID   string `json:"machine_id"`
}

func renewMachineID(r *guestroot.Root, stateDir string, in wire.Incarnation) error {
	seen := readMarker(stateDir)
	if seen.WorkspaceID == in.WorkspaceID && !in.RenewIdentity && hasMachineID(r) {
		return nil
	}
	made := marker{WorkspaceID: in.WorkspaceID, MachineID: newMachineID()}
	if err := replace(r, "machine-id", made.content(), machineIDMode); err != nil {
		return err
	}
	return os.WriteFile(markerPath(stateDir), made.text(), 0o600)
}

func newMachineID() string {
	var id [16]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

func (m marker) text() []byte {
	b, _ := json.Marshal(m) // two strings cannot fail
	return b
}

func (m marker) content() []byte { return []byte(m.MachineID + "\n") }

func markerPath(stateDir string) string { return filepath.Join(stateDir, "identity.json") }

func readMarker(stateDir string) (seen marker) {
	if b, err := os.ReadFile(markerPath(stateDir)); err == nil {
		// A partly written marker is read as no marker, so the machine-id is made again.
		_ = json.Unmarshal(b, &seen)
	}
	return seen
}

func hasMachineID(r *guestroot.Root) bool {
	b, err := r.ReadSmall("/etc/machine-id", 128)
	id := strings.TrimSpace(string(b))
	_, bad := hex.DecodeString(id)
	return err == nil && len(id) == 32 && bad == nil
}

func hostname(in wire.Incarnation) []byte { return []byte(in.Hostname + "\n") }

func resolver(in wire.Incarnation) []byte { return []byte("nameserver " + in.Nameserver + "\n") }

// hosts maps the host name to 127.0.1.1, so that sudo resolves it without DNS.
func hosts(r *guestroot.Root, in wire.Incarnation) []byte {
	return append(otherHosts(r), ownHost(in)...)
}

func ownHost(in wire.Incarnation) []byte { return []byte("127.0.1.1 " + in.Hostname + "\n") }

func otherHosts(r *guestroot.Root) []byte {
	old, err := r.ReadSmall("/etc/hosts", hostsBytesMax)
	if err != nil {
		old = nil
	}
	var kept []string
	local := false
	for _, line := range strings.Split(strings.TrimRight(string(old), "\n"), "\n") {
		fields := strings.Fields(line)
		if len(fields) > 0 && fields[0] == "127.0.1.1" {
			continue
		}
		local = local || len(fields) > 1 && fields[0] == "127.0.0.1"
		if line != "" {
			kept = append(kept, line)
		}
	}
	if !local {
		kept = append([]string{"127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"}, kept...)
	}
	return []byte(strings.Join(kept, "\n") + "\n")
}

// replace never follows a link: an existing file is removed, not overwritten.
func replace(r *guestroot.Root, name string, content []byte, mode uint32) error {
	etc, err := openEtc(r)
	if err != nil {
		return err
	}
	defer unix.Close(etc)
	if same(etc, name, content) {
		return nil
	}
	f, err := create(etc, name, mode)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(content)
	return err
}

func openEtc(r *guestroot.Root) (int, error) {
	etc, err := r.Open("/etc", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: "/etc", Err: err}
	}
	return etc, nil
}

func create(etc int, name string, mode uint32) (*os.File, error) {
	fd, err := unix.Openat(etc, name, createFlags, mode)
	if errors.Is(err, unix.EEXIST) {
		// An existing file is never opened for writing: it may be a device, or a hard link to another file of the guest.
		if err := unix.Unlinkat(etc, name, 0); err != nil {
			return nil, &os.PathError{Op: "unlink", Path: "/etc/" + name, Err: err}
		}
		fd, err = unix.Openat(etc, name, createFlags, mode)
	}
	if err != nil {
		return nil, &os.PathError{Op: "create", Path: "/etc/" + name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

const createFlags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC

func same(dir int, name string, content []byte) bool {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	buffer := make([]byte, len(content)+1)
	n, err := unix.Read(fd, buffer)
	return err == nil && string(buffer[:n]) == string(content)
}

// With the same SSH keys a fork could impersonate its source, so the keys are removed.
func removeHostKeys(r *guestroot.Root) error {
	fd, err := r.Open("/etc/ssh", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: "/etc/ssh", Err: err}
	}
	dir := os.NewFile(uintptr(fd), "/etc/ssh")
	defer dir.Close()
	names, err := dir.Readdirnames(etcEntriesMax)
	for _, name := range names {
		if strings.HasPrefix(name, "ssh_host_") {
			err = errors.Join(err, unix.Unlinkat(fd, name, 0))
		}
	}
	return err
}
