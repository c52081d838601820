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

// MountDisk mounts a disk in the sandbox by mount propagation. counters is the path of the kernel's quota counters, ""
// for none.
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

// OpenDisk clones the machine's overlay mount, read-only. A second overlay would miss the guest's changes.
func (e *Engine) OpenDisk(s *Sandbox) (*os.File, error) {
	// Private propagation keeps the reader's own mounts out of the sandbox.
	tree, err := cloneMount(filepath.Join(s.root(), "claim", "root"), unix.MountAttr{Propagation: unix.MS_PRIVATE,
		Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(tree), "disk"), nil
}

// SetGuestDiskSize sets the disk size that the guest sees, which would otherwise be the whole pool's.
func (e *Engine) SetGuestDiskSize(s *Sandbox, bytes int64) error {
	path := filepath.Join(s.tree(), "inc", "disk_bytes")
	if err := os.WriteFile(path+".tmp", strconv.AppendInt(nil, bytes, 10), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// RestoreInto restores an image into a blank sandbox that has its disk. It closes the image's files.
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

// ErrFixedMemory means that the engine is not a build of machine/runsc, and so cannot change a guest's memory size.
var ErrFixedMemory = errors.New("the engine cannot tell a sandbox of other memory")

// SetGuestMemory changes the record first. If hostd ends in between, the next hostd removes the sandbox, because its
// size differs from the configured one.
func (e *Engine) SetGuestMemory(ctx context.Context, s *Sandbox, size Size) error {
	if err := s.Update(func(r *Record) { r.Size.MemoryMiB = size.MemoryMiB }); err != nil {
		return err
	}
	_, err := e.callSandbox(ctx, s, answerBound, "containerManager.SetTotalMemory", size.memoryBytes())
	if isUnknownMethod(err) {
		return errors.Join(ErrFixedMemory, err)
	}
	return err
}

// isUnknownMethod compares the text, because gVisor's pkg/urpc has no error code.
func isUnknownMethod(err error) bool {
	return err != nil && strings.HasSuffix(err.Error(), "unknown method")
}

// Condemn kills a machine without waiting. The guest executes no further instruction, but the kernel needs 10 ms, or
// 250 for a large guest, to free the memory.
func (e *Engine) Condemn(s *Sandbox) error {
	group := e.groups.Get(s.Slot)
	if !group.Exists() {
		return nil
	}
	// On cgroup v1 a frozen task dies only after a thaw. The thawed task executes no instruction before it dies.
	return errors.Join(group.Condemn(), group.Thaw())
}

// Kill waits until the sandbox's cgroup is empty.
func (e *Engine) Kill(ctx context.Context, s *Sandbox) error {
	group := e.groups.Get(s.Slot)
	if !group.Exists() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, killTime)
	defer cancel()
	if err := group.Thaw(); err != nil {
		return err
	}
	return group.Kill(ctx)
}

// Remove releases the network in the background, because that takes 36-52 ms. Remove can be repeated, and deletes no
// files below a remaining mount.
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

// ownerOf returns the owner who may get the address again at once. A slot without a record may have been a machine, so
// its address rests for all owners.
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
			e.log.Error("a network is left to the next pass", "slot", slot, "error", err)
		}
	})
}
