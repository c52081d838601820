package hostd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/cgroup"
	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/network"
)

const (
	lockWait      = 5 * time.Second
	lockLookEvery = 10 * time.Millisecond
)

// Lock permits one hostd at a time. After a kill the lock can last a while: the kernel releases it when the process and
// all its children between fork and exec are gone.
func Lock(runDir string) (*os.File, error) {
	if err := os.MkdirAll(runDir, 0o711); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(runDir, "hostd.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockWait); ; time.Sleep(lockLookEvery) {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if time.Now().After(deadline) {
			file.Close()
			return nil, fmt.Errorf("another hostd of this instance runs: %w", err)
		}
	}
}

// Clean removes an instance's kernel objects: machines, networks, cgroups, mounts and, with their last mount, loop
// devices. Of the files it removes only those of slots, and it needs no runsc, agent or working pool. It runs inside
// the instance's mount namespace; the caller removes the pin from outside.
func Clean(ctx context.Context, config Config, log *slog.Logger) error {
	groups, err := cgroup.Open(config.Instance)
	if err != nil {
		return err
	}
	router, err := network.OpenToRemove(ctx, networkConfig(config))
	if err != nil {
		return err
	}
	sandboxes, err := engine.OpenToRemove(ctx, engineConfig(config), groups, router, log)
	if err != nil {
		return err
	}
	failed := errors.Join(groups.Resolver().Kill(ctx), groups.SecretProxy().Kill(ctx), sandboxes.RemoveAll(ctx))
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
