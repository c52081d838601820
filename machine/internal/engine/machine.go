package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-dev/berth/machine/internal/layers"
)

const (
	removeTime = 60 * time.Second
	killTime   = 20 * time.Second
)

// MountDisk puts a disk into the claim of a slot or shell: the workspace's overlay and, beside it and outside the guest's root, the
// agent's state directory. Propagation carries both into the sandbox.
func (e *Engine) MountDisk(s *Sandbox, lower []string, disk string) error {
	if err := layers.Overlay(lower, disk, filepath.Join(s.root(), "claim", "root")); err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	return bind(filepath.Join(disk, "state"), filepath.Join(s.root(), "claim", "state"))
}

// RestoreInto continues a checkpoint in a shell whose disk is mounted. The image is read before the call returns: a sandbox that
// loads pages in the background dies of a bad one after it was called running.
func (e *Engine) RestoreInto(ctx context.Context, s *Sandbox, image, agent string) error {
	if err := e.linkAgent(s, agent); err != nil {
		return err
	}
	if err := s.Update(func(r *Record) { r.AgentSHA256 = agent }); err != nil {
		return err
	}
	if err := e.runsc(ctx, s, "restore", "--detach", "--bundle", s.Dir, "--image-path", image, e.containerID(s.Slot)); err != nil {
		return err
	}
	return s.Record().Sandbox.confined()
}

// Kill ends a sandbox and waits until nothing of it is left in its cgroup.
func (e *Engine) Kill(ctx context.Context, s *Sandbox) error {
	group := e.groups.Get(s.Slot)
	if !group.Exists() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, killTime)
	defer cancel()
	// A frozen task of cgroup v1 does not even die.
	if err := group.Thaw(); err != nil {
		return err
	}
	return group.Kill(ctx)
}

// Remove ends a sandbox and takes away all that was around it, except its network, which takes 36-52 ms and is released
// behind the caller's back. It is safe to call again after a failure.
func (e *Engine) Remove(ctx context.Context, s *Sandbox) error {
	if err := e.Kill(ctx, s); err != nil {
		return err
	}
	if err := UnmountBelow(s.Dir); err != nil {
		return err
	}
	if err := e.groups.Get(s.Slot).Delete(); err != nil {
		return err
	}
	if err := errors.Join(e.forget(s.Slot), os.RemoveAll(s.Dir)); err != nil {
		return err
	}
	e.releaseNetwork(s.Slot)
	return nil
}

func (e *Engine) releaseNetwork(slot string) {
	e.releases.Add(1)
	go func() {
		defer e.releases.Done()
		if err := e.router.Release(slot); err != nil {
			e.log.Error("a network is left until the next start", "slot", slot, "error", err)
		}
	}()
}
