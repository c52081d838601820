package hostd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/cgroup"
	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/network"
)

// Lock holds the run directory for one hostd at a time. The kernel lets go of it with the process.
func Lock(runDir string) (*os.File, error) {
	if err := os.MkdirAll(runDir, 0o711); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(runDir, "hostd.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("another hostd of this instance runs: %w", err)
	}
	return file, nil
}

// Clean takes away everything of an instance that the kernel holds: machines, networks, cgroups, mounts and, with the last mount of
// each, loop devices. Files stay, except those of slots. It needs no runsc, no agent and no pool in order. It runs inside the
// instance's mount namespace; the pin is the caller's to remove, from outside.
func Clean(ctx context.Context, config Config, log *slog.Logger) error {
	groups, err := cgroup.Open(config.Instance)
	if err != nil {
		return err
	}
	router, err := network.Open(ctx, networkConfig(config))
	if err != nil {
		return err
	}
	sandboxes, err := engine.OpenToRemove(ctx, engineConfig(config), groups, router, log)
	if err != nil {
		return err
	}
	failed := sandboxes.RemoveAll(ctx)
	sandboxes.Wait()
	failed = errors.Join(failed, router.Close())
	mounts := []string{config.DataDir, config.RunDir, config.LayersDir}
	if config.Pool.Image != "" {
		mounts = append(mounts, config.Pool.Mount)
	}
	for _, path := range mounts {
		failed = errors.Join(failed, engine.UnmountBelow(path))
	}
	return errors.Join(failed, groups.Remove(), os.RemoveAll(config.runPath("runsc")), os.RemoveAll(config.runPath("logs")), os.RemoveAll(config.runPath("reads")), removeIfThere(config.Socket))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
