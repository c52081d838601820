package hostd

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/pool"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// A checkpoint is a directory with image parts, a read-only snapshot of the disk, and manifest.json. Renaming the
// manifest into place completes the checkpoint; a directory without it is an orphan.
const (
	manifestName    = "manifest.json"
	manifestVersion = 1
	diskName        = "disk"
	manifestBytes   = 1 << 20
)

type manifest struct {
	Version      int            `json:"version"`
	Owner        string         `json:"workspace_id"` // owner name of the subject
	CheckpointID string         `json:"checkpoint_id"`
	OperationID  string         `json:"operation_id"`
	Epoch        int64          `json:"epoch"`
	Fence        int64          `json:"fence"`
	DiskOnly     bool           `json:"disk_only,omitempty"`   // true: there are no parts, and a restore needs no engine or agent
	EngineKind   string         `json:"engine_kind,omitempty"` // "" for a disk-only checkpoint and for releases with only one engine
	Engine       string         `json:"engine"`                // the engine's version
	SpecVersion  int            `json:"spec_version"`
	Processor    []string       `json:"processor,omitempty"`    // features that the guest may have detected
	CPUFeatures  string         `json:"cpu_features,omitempty"` // hash of /proc/cpuinfo flags, of releases without Processor
	AgentSHA256  string         `json:"agent_sha256"`
	Protocol     int            `json:"agent_protocol"`
	Address      string         `json:"address,omitempty"` // the guest's address; "" in a copy for another subject
	Layers       []string       `json:"layers"`
	Resources    wire.Resources `json:"resources"`
	Parts        []part         `json:"parts"`
	DiskUUID     string         `json:"disk_uuid"`            // UUID of the snapshot's subvolume; detects a replaced disk
	DiskBytes    *int64         `json:"disk_bytes,omitempty"` // pool.ReferencedBytes of the disk; nil in manifests of older releases
	SizeBytes    int64          `json:"size_bytes"`
	CreatedAt    string         `json:"created_at"`
	PausedMS     int64          `json:"paused_ms"`
}

// part describes one image file. Inode and change time were read after the digest. While both and the size match, the
// file is unchanged.
type part struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	// StoredBytes excludes holes; a copy may store more or less.
	StoredBytes int64  `json:"stored_bytes"`
	Digest      string `json:"digest"` // computed by a digester
	Inode       uint64 `json:"inode"`
	CTimeNS     int64  `json:"ctime_ns"`
}

func (m manifest) withoutMemory() manifest {
	m.DiskOnly, m.Parts, m.SizeBytes = true, nil, 0
	m.EngineKind, m.Engine, m.SpecVersion, m.Processor, m.CPUFeatures, m.AgentSHA256, m.Protocol = "", "", 0, nil, "", "", 0
	m.Address = ""
	return m
}

// sealed is the file's format. Seal is an HMAC under the host key, which detects any change of the manifest.
type sealed struct {
	Manifest json.RawMessage `json:"manifest"`
	Seal     string          `json:"seal"`
}

func (h *Host) seal(text []byte) string {
	mac := hmac.New(sha256.New, h.key)
	mac.Write([]byte("manifest|"))
	mac.Write(text)
	return hex.EncodeToString(mac.Sum(nil))
}

// Everything that the manifest names must be durable before writeManifest.
func (h *Host) writeManifest(dir string, m manifest) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	whole, err := json.Marshal(sealed{Manifest: text, Seal: h.seal(text)})
	if err != nil {
		return err
	}
	temporary := filepath.Join(dir, manifestName+".tmp")
	if err := os.WriteFile(temporary, whole, 0o600); err != nil {
		return err
	}
	if err := pool.FlushFile(temporary); err != nil {
		return err
	}
	if err := h.points.at("checkpoint.rename"); err != nil {
		return err
	}
	if err := os.Rename(temporary, filepath.Join(dir, manifestName)); err != nil {
		return err
	}
	// The directory's name is durable only after its parent is synced.
	return errors.Join(pool.SyncDir(dir), pool.SyncDir(filepath.Dir(dir)))
}

// readManifest treats a valid manifest of another checkpoint as corrupt.
func (h *Host) readManifest(workspace, id string) (manifest, error) {
	var m manifest
	whole, err := readBounded(filepath.Join(h.pool.CheckpointDir(workspace, id), manifestName), manifestBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return m, because("not_found", "There is no such checkpoint", err)
	}
	if err != nil {
		return m, corrupt(err)
	}
	var file sealed
	decoder := json.NewDecoder(bytes.NewReader(whole))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return m, corrupt(err)
	}
	if decoder.More() || !hmac.Equal([]byte(file.Seal), []byte(h.seal(file.Manifest))) {
		return m, corrupt(errors.New("the manifest's seal is broken"))
	}
	if err := json.Unmarshal(file.Manifest, &m); err != nil {
		return m, corrupt(err)
	}
	if m.Owner != workspace || m.CheckpointID != id {
		return m, corrupt(fmt.Errorf("the manifest is of checkpoint %s of %s", m.CheckpointID, m.Owner))
	}
	return m, nil
}

func (h *Host) verifyContent(ctx context.Context, dir string, m manifest) error {
	for _, expected := range m.Parts {
		if err := h.verifyPart(ctx, dir, expected); err != nil {
			return corrupt(err)
		}
	}
	return h.verifyDisk(dir, m)
}

func (h *Host) verifyDisk(dir string, m manifest) error {
	uuid, err := subvolumeUUID(filepath.Join(dir, diskName))
	if err != nil {
		return corrupt(err)
	}
	if uuid != m.DiskUUID {
		return corrupt(errors.New("the disk is not the one of this checkpoint"))
	}
	return nil
}

func (h *Host) verifyPart(ctx context.Context, dir string, expected part) error {
	path := filepath.Join(dir, expected.Name)
	found, err := statPart(path)
	if err != nil {
		return err
	}
	if found.Size == expected.Size && found.Inode == expected.Inode && found.CTimeNS == expected.CTimeNS {
		return nil
	}
	if found.Size != expected.Size {
		return fmt.Errorf("%s has %d bytes, not %d", expected.Name, found.Size, expected.Size)
	}
	digester, err := h.digesterOf(expected.Digest)
	if err != nil {
		return err
	}
	digest, err := digester.of(ctx, path)
	if err != nil {
		return err
	}
	if digest != expected.Digest {
		return fmt.Errorf("%s has another content", expected.Name)
	}
	return nil
}

// Flush and digest of each file run in parallel: the flush waits for the disk, the digest for the processor.
func (h *Host) digestParts(ctx context.Context, dir string, names []string) ([]part, error) {
	parts, errs := make([]part, len(names)), make([]error, 2*len(names))
	var work sync.WaitGroup
	for i, name := range names {
		path := filepath.Join(dir, name)
		work.Add(2)
		go func() {
			defer work.Done()
			errs[2*i] = pool.FlushFile(path)
		}()
		go func() {
			defer work.Done()
			digester, err := h.newDigester()
			if err == nil {
				parts[i].Digest, err = digester.of(ctx, path)
			}
			errs[2*i+1] = err
		}()
	}
	work.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for i, name := range names {
		found, err := statPart(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		found.Name, found.Digest = name, parts[i].Digest
		parts[i] = found
	}
	return parts, nil
}

func statPart(path string) (part, error) {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return part{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return part{}, fmt.Errorf("%s is not a regular file", path)
	}
	return part{Size: stat.Size, StoredBytes: stat.Blocks * 512, Inode: stat.Ino, CTimeNS: stat.Ctim.Nano()}, nil
}

func (m manifest) info() wire.CheckpointInfo {
	return wire.CheckpointInfo{CheckpointID: m.CheckpointID, Subject: wire.SubjectOf(m.Owner), Epoch: m.Epoch, Fence: m.Fence, Engine: m.Engine, SizeBytes: m.SizeBytes,
		EngineKind: m.engineKind(), DiskBytes: m.DiskBytes, Disk: diskName, CreatedAt: m.CreatedAt, PausedMS: m.PausedMS, Layers: m.Layers, Resources: m.Resources, DiskOnly: m.DiskOnly}
}

func corrupt(cause error) error {
	return &refusal{code: "checkpoint_corrupt", message: "The checkpoint does not match its manifest", cause: cause}
}

func readBounded(path string, bytesMax int64) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > bytesMax {
		return nil, fmt.Errorf("%s is not a small regular file", path)
	}
	return os.ReadFile(path)
}
