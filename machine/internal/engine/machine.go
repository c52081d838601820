package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/layers"
	"github.com/berth-dev/berth/machine/internal/network"
)

const (
	removeTime = 60 * time.Second
	killTime   = 20 * time.Second
)

// MountDisk puts a disk into the claim of a slot or shell: the workspace's overlay and, beside it and outside the guest's root, the
// agent's state directory, what the kernel counts of it ("": it does not tell), and what the agent compares to list changes. Propagation
// carries all of them into the sandbox.
func (e *Engine) MountDisk(s *Sandbox, lower []string, disk, counters string) error {
	if err := layers.Overlay(lower, disk, filepath.Join(s.root(), "claim", "root")); err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	if err := bind(filepath.Join(disk, "state"), filepath.Join(s.root(), "claim", "state")); err != nil {
		return err
	}
	if counters != "" {
		if err := bindReadOnly(counters, filepath.Join(s.root(), "claim", "quota")); err != nil {
			return err
		}
	}
	if err := bindReadOnly(filepath.Join(disk, "upper"), filepath.Join(s.Dir, "layers", "upper")); err != nil {
		return err
	}
	return layers.View(lower, filepath.Join(s.Dir, "layers", "template"))
}

// OpenDisk gives a mount of the disk that a machine runs on, for one who only reads, attached nowhere. It is the machine's own overlay: a
// second one over the same directories would have caches of its own, and not see what the guest changes.
func (e *Engine) OpenDisk(s *Sandbox) (*os.File, error) {
	// Private: the machine's mount is shared with the sandbox, and what its reader mounts on it would appear there.
	tree, err := cloneMount(filepath.Join(s.root(), "claim", "root"), unix.MountAttr{Propagation: unix.MS_PRIVATE,
		Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(tree), "disk"), nil
}

// TellDisk says how large the guest's disk is to be called. Without it the guest is told of the whole pool.
func (e *Engine) TellDisk(s *Sandbox, bytes int64) error {
	path := filepath.Join(s.tree(), "inc", "disk_bytes")
	if err := os.WriteFile(path+".tmp", strconv.AppendInt(nil, bytes, 10), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// RestoreInto continues a checkpoint in a shell whose disk is mounted.
func (e *Engine) RestoreInto(ctx context.Context, s *Sandbox, image []*os.File, agent string) error {
	defer closeAll(image)
	if err := e.giveAgent(s, agent); err != nil {
		return err
	}
	if err := s.Update(func(r *Record) { r.AgentSHA256 = agent }); err != nil {
		return err
	}
	if err := e.restoreImage(ctx, s, image); err != nil {
		return fmt.Errorf("%w: %s", err, e.lastWords(s, filepath.Join(s.Dir, "runsc.log")))
	}
	if err := e.noteRunning(s); err != nil {
		return err
	}
	return e.confined(s)
}

// ErrFixedMemory is of an engine that was not built by machine/runsc: its sandboxes keep the memory that they started with.
var ErrFixedMemory = errors.New("the engine cannot tell a sandbox of other memory")

// TellMemory changes what the guest of a slot or shell is told of its memory. The record says so first: hostd throws away what waits
// with another size than it is configured to.
func (e *Engine) TellMemory(ctx context.Context, s *Sandbox, size Size) error {
	if err := s.Update(func(r *Record) { r.Size.MemoryMiB = size.MemoryMiB }); err != nil {
		return err
	}
	_, err := e.ask(ctx, s, answerBound, "containerManager.SetTotalMemory", size.memoryBytes())
	if isUnknownMethod(err) {
		return errors.Join(ErrFixedMemory, err)
	}
	return err
}

// isUnknownMethod goes by what gVisor's pkg/urpc says.
func isUnknownMethod(err error) bool {
	return err != nil && strings.HasSuffix(err.Error(), "unknown method")
}

// Condemn kills every process of a sandbox without waiting for the end: what is killed runs no instruction of its own any more, but the
// kernel takes 10 ms, or 250 for a large guest, to take its memory back.
func (e *Engine) Condemn(s *Sandbox) error {
	group := e.groups.Get(s.Slot)
	if !group.Exists() {
		return nil
	}
	// A frozen task of cgroup v1 does not die before it thaws, and runs no further than to its end then.
	return errors.Join(group.Condemn(), group.Thaw())
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
// behind the caller's back. It is safe to call again after a failure. What is mounted still is an error, and is not walked into.
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
	if err := errors.Join(e.forget(s.Slot), removeTree(s.Dir)); err != nil {
		return err
	}
	s.closeAgent()
	e.releaseNetwork(s.Slot, ownerOf(s.Record()))
	return nil
}

// ownerOf is whose machine ran in the slot. It may be a machine's slot where there is no record: then it rests from every machine.
func ownerOf(r Record) string {
	switch {
	case r.Claim != nil:
		return r.Claim.Owner
	case r.Kind == "":
		return network.UnknownOwner
	default:
		return ""
	}
}

func (e *Engine) releaseNetwork(slot, owner string) {
	e.router.Leave(slot, owner)
	e.releases.Go(func() {
		defer e.letGo(slot)
		if err := e.router.Release(slot); err != nil {
			e.log.Error("a network is left to the next sweep", "slot", slot, "error", err)
		}
	})
}
