package hostd

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// keepVolume only stores the mark. The cell decides which volume is an orphan and when it is deleted.
func (h *Host) keepVolume(_ context.Context, r wire.KeepVolumeRequest) (struct{}, error) {
	since := ""
	if r.Keep {
		since = stamp(time.Now())
	}
	err := h.volumes.KeepVolume(r.ID, since)
	if errors.Is(err, os.ErrNotExist) {
		return struct{}{}, refuse("not_found", "There is no such volume here")
	}
	return struct{}{}, err
}

func (h *Host) volumesHere() ([]wire.VolumeHere, error) {
	here := []wire.VolumeHere{}
	ids, err := h.volumes.ListVolumes()
	for _, id := range ids {
		since, err := h.volumes.VolumeKeptSince(id)
		if err != nil {
			h.log.Warn("the start of a volume's quarantine cannot be read", "volume", id, "error", err)
		}
		here = append(here, wire.VolumeHere{VolumeID: id, KeptSince: since})
	}
	return here, err
}

func checkKeepVolume(r wire.KeepVolumeRequest) error {
	return checkVolumeFence(wire.Fenced{Fence: r.Fence})
}
