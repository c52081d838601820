package hostd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/cgroup"
	"github.com/berth-dev/berth/machine/internal/layers"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	dropMax          = 256
	layerEntriesMax  = 2_000_000
	layerBytesMax    = int64(diskGiBMax) << 30
	layerRefusedCode = "layer_refused"
)

// makeLayer needs no record of earlier attempts: the image depends on the disk only, and its name on the image only.
func (h *Host) makeLayer(ctx context.Context, r wire.LayerRequest) (wire.Layer, error) {
	dropped, err := layers.ParseDropped(r.Drop)
	if err != nil {
		return wire.Layer{}, &refusal{code: "bad_request", message: "drop holds what is no path", cause: err}
	}
	disk, below, err := h.diskForLayer(ctx, r)
	if err != nil {
		return wire.Layer{}, err
	}
	from, err := h.openForLayer(filepath.Join(disk, "upper", r.Root), below, r.Whole)
	if err != nil {
		return wire.Layer{}, err
	}
	defer from.Close()
	findings := []wire.LayerFinding{}
	if r.Scan {
		if findings, err = h.scanForSecrets(ctx, from, r); err != nil {
			return wire.Layer{}, layerError(err)
		}
	}
	plan := layers.Plan{From: from, Dropped: dropped, BytesMax: r.BytesMax, EntriesMax: r.EntriesMax, Run: h.runImage,
		At: func(step string) error { return h.points.at("layer_make." + step) }}
	made, err := h.layers.Make(ctx, layers.MakingName(r.Owner(), r.Fence.Fence), plan)
	if err != nil {
		return wire.Layer{}, layerError(err)
	}
	return wire.Layer{Digest: made.Digest, SizeBytes: made.SizeBytes, Entries: made.Entries, Findings: findings}, h.points.at("layer_make.answer")
}

// imageLimits permits as much CPU as a machine's, because a caller waits for the compression.
func imageLimits(memoryBytes int64) cgroup.Limits {
	return cgroup.Limits{CPUMillis: 2000, MemoryBytes: memoryBytes, Pids: 64}
}

func (h *Host) runImage(command *exec.Cmd, memoryBytes int64) error {
	return h.runInCgroup("image", imageLimits(memoryBytes), command, func() error { return nil })
}

func (h *Host) diskForLayer(ctx context.Context, r wire.LayerRequest) (disk string, below []string, err error) {
	if r.Of == nil {
		if h.machine(r.Owner()) != nil {
			return "", nil, refuse("already_running", "The machine has not ended")
		}
		return h.pool.DiskPath(r.Owner(), r.Disk), r.Layers, h.clearDead(ctx, r.Owner())
	}
	m, err := h.readManifest(r.Of.Owner(), r.Of.CheckpointID)
	if err != nil {
		return "", nil, err
	}
	dir := h.pool.CheckpointDir(m.Owner, m.CheckpointID)
	return filepath.Join(dir, diskName), m.Layers, h.verifyDisk(dir, m)
}

// openForLayer follows no symbolic link of the guest. For a whole disk it adds the layers below; a disk without them is
// already complete.
func (h *Host) openForLayer(dir string, below []string, whole bool) (*os.File, error) {
	upper, err := h.pool.OpenBelow(dir)
	if isNoDirectory(err) {
		return nil, refuse("not_found", "There is no such disk, or it has no such directory")
	}
	if err != nil || !whole || len(below) == 0 {
		return upper, err
	}
	defer upper.Close()
	lower, err := h.mountLayers(below)
	if err != nil {
		return nil, err
	}
	return layers.Detached(append([]string{dir}, lower...), h.reads.starter.MountPoint())
}

func isNoDirectory(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR)
}

func layerError(err error) error {
	for cause, why := range map[error]string{
		layers.ErrTooLarge: wire.LayerTooLarge, layers.ErrTooManyEntries: wire.LayerTooManyEntries, unix.ENAMETOOLONG: wire.LayerPathTooLong,
	} {
		if errors.Is(err, cause) {
			return &refusal{code: layerRefusedCode, message: "What the disk holds becomes no layer", cause: err, details: map[string]any{"why": why}}
		}
	}
	return because("internal", "The layer could not be made", err)
}

func checkLayerMake(r wire.LayerRequest) error {
	if err := checkFence(r.Fence); err != nil {
		return err
	}
	if len(r.Drop) > dropMax || r.BytesMax < 1 || r.BytesMax > layerBytesMax || r.EntriesMax < 1 || r.EntriesMax > layerEntriesMax {
		return refuse("bad_request", "drop, bytes_max or entries_max is out of range")
	}
	if r.Root != "" && (r.Of != nil || r.Whole || len(r.Root) > 256 || !strings.HasPrefix(r.Root, "/") || path.Clean(r.Root) != r.Root) {
		return refuse("bad_request", "root is an absolute path on a disk of the caller's own")
	}
	if r.Of == nil {
		if !diskPattern.MatchString(r.Disk) {
			return refuse("bad_request", "disk is no name")
		}
		return checkLayers(r.Layers)
	}
	if r.Disk != "" || len(r.Layers) > 0 || !isSubject(r.Of.Subject) {
		return refuse("bad_request", "of names a subject and its checkpoint, and stands for disk and layers")
	}
	return checkCheckpointID(r.Of.CheckpointID)
}
