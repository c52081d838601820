package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// All mount slots are made at the start. So a restored guest finds its slots again, even if a volume is gone.

func makeMountSlots(dir string) error {
	for place := range wire.VolumePlaces {
		if err := os.Mkdir(filepath.Join(dir, strconv.Itoa(place)), 0o755); err != nil {
			return err
		}
	}
	// These empty objects replace files that a restored guest had open but that no longer exist
	// (machine/runsc/patches/correctness/shared-files-survive-their-removal.patch).
	gone := filepath.Join(dir, ".gone")
	if err := os.MkdirAll(filepath.Join(gone, "dir"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(gone, "file"), nil, 0o644)
}

func (s *Sandbox) mountSlotPath(place int) string {
	return filepath.Join(s.Dir, "volumes", strconv.Itoa(place))
}

// MountVolume sets the mount's permissions before it attaches the mount, so no process sees a more permissive one.
func (e *Engine) MountVolume(s *Sandbox, volume wire.Volume, source string) error {
	attributes := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if volume.ReadOnly {
		attributes |= unix.MOUNT_ATTR_RDONLY
	}
	return bindWith(source, s.mountSlotPath(volume.Place), attributes)
}

// ErrInUse means that a guest process has the volume or a file in it open.
var ErrInUse = errors.New("the volume is in use")

// The tries are 20 ms apart, because the engine closes a file a moment after the guest.
const volumeTries = 50

// UnmountVolume unmounts a volume; an empty slot is no error.
func (e *Engine) UnmountVolume(s *Sandbox, place int) error {
	return unmountVolume(s.mountSlotPath(place), volumeTries)
}

// DetachVolume removes a volume even if files are open; those files can still be used.
func (e *Engine) DetachVolume(s *Sandbox, place int) error {
	err := unmountVolume(s.mountSlotPath(place), 1)
	if errors.Is(err, ErrInUse) {
		return unix.Unmount(s.mountSlotPath(place), unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
	return err
}

func unmountVolume(point string, tries int) error {
	var err error
	for try := range tries {
		if try > 0 {
			time.Sleep(20 * time.Millisecond)
		}
		err = unix.Unmount(point, unix.UMOUNT_NOFOLLOW)
		if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	return fmt.Errorf("unmount %s: %w", point, ErrInUse)
}

const volumesTime = 15 * time.Second

// SetGuestVolumes makes the guest mount exactly the requested volumes.
func (e *Engine) SetGuestVolumes(ctx context.Context, s *Sandbox, epoch int64, request wire.GuestVolumesRequest) (wire.GuestVolumes, error) {
	ctx, cancel := context.WithTimeout(ctx, volumesTime)
	defer cancel()
	defer s.closeAgent()
	var answer wire.GuestVolumes
	body, err := json.Marshal(request)
	if err == nil {
		err = e.askAgentFor(ctx, s, http.MethodPost, "/volumes", epoch, body, &answer)
	}
	return answer, err
}

// CanHaveVolumes is false for agents that are older than the volumes.
func (s *Sandbox) CanHaveVolumes() bool { return s.Record().AgentProtocol() >= wire.ProtocolVolumes }

// HasVolume reports whether a volume is mounted in the slot.
func (e *Engine) HasVolume(s *Sandbox, place int) bool {
	points, err := MountsBelow(s.mountSlotPath(place))
	return err == nil && len(points) > 0
}
