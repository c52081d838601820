package hostd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/berth-dev/berth/machine/internal/cgroup"
	"github.com/berth-dev/berth/machine/internal/layers"
)

// fillDisk copies layers to a disk durably, with all metadata and hard links. After a failure the disk is partly
// filled, and its attempt is never committed.
func (h *Host) fillDisk(ctx context.Context, digests []string, disk string) error {
	lower, err := h.mountLayers(digests)
	if err != nil {
		return err
	}
	// An overlay needs at least two lower directories, so an empty one is added.
	tree, err := layers.Detached(append([]string{h.reads.starter.Empty()}, lower...), h.reads.starter.MountPoint())
	if err != nil {
		return err
	}
	defer tree.Close()
	if err := h.copyTree(ctx, tree, filepath.Join(disk, "upper")); err != nil {
		return err
	}
	return h.pool.Sync(disk)
}

// The memory of copyLimits includes cp's table of hard-linked files, at most layerEntriesMax per layer.
var copyLimits = cgroup.Limits{CPUMillis: 2000, MemoryBytes: 64<<20 + layerEntriesMax*copyBytesEntry, Pids: 64}

const copyBytesEntry = 256

// copyTree's process ends with hostd, because an orphan would write to a disk that is being deleted.
func (h *Host) copyTree(ctx context.Context, from *os.File, to string) error {
	command := exec.CommandContext(ctx, "cp", "--archive", "--one-file-system", "/proc/self/fd/3/.", to)
	command.ExtraFiles = []*os.File{from}
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := h.runInCgroup("copy", copyLimits, command, func() error { return nil }); err != nil {
		return fmt.Errorf("copying the template: %w: %.500s", err, output.String())
	}
	return nil
}
