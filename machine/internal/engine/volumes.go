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

// Each place for a volume is a directory of the slot's read-only /volumes, there from the beginning: what is mounted on it appears in the
// sandbox, and what the guest had mounted from it is found again by the restore of a checkpoint, whatever became of the volume meanwhile.

func makePlaces(dir string) error {
	for place := range wire.VolumePlaces {
		if err := os.Mkdir(filepath.Join(dir, strconv.Itoa(place)), 0o755); err != nil {
			return err
		}
	}
	// For files of a volume that are gone when the guest that had them open is restored
	// (machine/runsc/patches/correctness/shared-files-survive-their-removal.patch).
	gone := filepath.Join(dir, ".gone")
	if err := os.MkdirAll(filepath.Join(gone, "dir"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(gone, "file"), nil, 0o644)
}

func (s *Sandbox) place(place int) string {
	return filepath.Join(s.Dir, "volumes", strconv.Itoa(place))
}

// MountVolume mounts a directory at a place. What may be done there is decided by the mount, before it is attached.
func (e *Engine) MountVolume(s *Sandbox, volume wire.Volume, source string) error {
	attributes := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if volume.ReadOnly {
		attributes |= unix.MOUNT_ATTR_RDONLY
	}
	return bindWith(source, s.place(volume.Place), attributes)
}

// ErrInUse: something of the guest holds the volume, or something in it.
var ErrInUse = errors.New("the volume is in use")

// volumeTries are 20 ms apart: the engine lets go of a file a moment after the guest has.
const volumeTries = 50

// UnmountVolume takes a volume from a place. Nothing there is no error. ErrInUse: it stays.
func (e *Engine) UnmountVolume(s *Sandbox, place int) error {
	return unmountVolume(s.place(place), volumeTries)
}

// DetachVolume takes a volume from a place whoever uses it. What was opened by then stays open.
func (e *Engine) DetachVolume(s *Sandbox, place int) error {
	err := unmountVolume(s.place(place), 1)
	if errors.Is(err, ErrInUse) {
		return unix.Unmount(s.place(place), unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
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

// volumesTime bounds how long a guest may take to mount and unmount.
const volumesTime = 15 * time.Second

// SetGuestVolumes has a running machine's agent mount what stands at the places where the guest is to see it, and unmount the rest.
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

// CanHaveVolumes: the agent speaks the protocol that has them.
func (s *Sandbox) CanHaveVolumes() bool { return s.Record().AgentProtocol() >= wire.ProtocolVolumes }

// HasVolume says whether something is mounted at a place.
func (e *Engine) HasVolume(s *Sandbox, place int) bool {
	points, err := MountsBelow(s.place(place))
	return err == nil && len(points) > 0
}
