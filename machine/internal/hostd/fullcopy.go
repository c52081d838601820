package hostd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

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
	if err := copyTree(ctx, tree, filepath.Join(disk, "upper")); err != nil {
		return err
	}
	return h.pool.Sync(disk)
}

// copyTree ends its program when hostd ends: an orphan would go on writing to a disk that is being taken away.
func copyTree(ctx context.Context, from *os.File, to string) error {
	// The kernel ends the program with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command := exec.CommandContext(ctx, "cp", "--archive", "--one-file-system", "/proc/self/fd/3/.", to)
	command.ExtraFiles = []*os.File{from}
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("copying the template: %w: %.500s", err, output)
	}
	return nil
}
