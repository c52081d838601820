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

// fillDisk copies all that the layers hold onto a blank disk, durably: ownership, modes, times, attributes and hard links included.
// A disk that was not filled to its end is of an attempt that nobody commits.
func (h *Host) fillDisk(ctx context.Context, digests []string, disk string) error {
	lower, err := h.mountLayers(digests)
	if err != nil {
		return err
	}
	// An overlay has at least two.
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

// copyLimits: the program remembers each file of several names, which a layer has layerEntriesMax of at most.
var copyLimits = cgroup.Limits{CPUMillis: 2000, MemoryBytes: 64<<20 + layerEntriesMax*copyBytesEntry, Pids: 64}

const copyBytesEntry = 256

// copyTree ends its program when hostd ends: an orphan would go on writing to a disk that is being taken away.
func (h *Host) copyTree(ctx context.Context, from *os.File, to string) error {
	command := exec.CommandContext(ctx, "cp", "--archive", "--one-file-system", "/proc/self/fd/3/.", to)
	command.ExtraFiles = []*os.File{from}
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := h.runAside("copy", copyLimits, command, func() error { return nil }); err != nil {
		return fmt.Errorf("copying the template: %w: %.500s", err, output.String())
	}
	return nil
}
