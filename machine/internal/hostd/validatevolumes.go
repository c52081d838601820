package hostd

import (
	"cmp"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/berth-dev/berth/machine/internal/wire"
)

const mountPathBytesMax = 512

func checkVolume(r wire.VolumeRequest) error {
	if r.QuotaGiB < 1 || r.QuotaGiB > diskGiBMax {
		return refuse("bad_request", "quota_gib is out of range")
	}
	return checkVolumeFence(wire.Fenced{Fence: r.Fence})
}

func checkVolumeFence(r wire.Fenced) error {
	if r.Kind != wire.KindVolume || !uuidPattern.MatchString(r.ID) {
		return refuse("bad_request", "subject is not a volume")
	}
	return checkAttempt(r.Fence)
}

func checkVolumes(r wire.VolumesRequest) error {
	return cmp.Or(checkFence(r.Fence), checkMounts(r.Volumes))
}

// checkMounts does not restrict paths: the caller decides which are allowed, and the guest's own kernel resolves them.
func checkMounts(volumes []wire.Volume) error {
	places, ids, paths := map[int]bool{}, map[string]bool{}, map[string]bool{}
	for _, v := range volumes {
		if !uuidPattern.MatchString(v.VolumeID) || ids[v.VolumeID] {
			return refuse("bad_request", "volume_id is not a UUID, or there twice")
		}
		if v.Place < 0 || v.Place >= wire.VolumePlaces || places[v.Place] {
			return refuse("bad_request", "place is out of range, or there twice")
		}
		if !isMountPath(v.MountPath) || paths[v.MountPath] {
			return refuse("bad_request", "mount_path is not a plain absolute path, or there twice")
		}
		places[v.Place], ids[v.VolumeID], paths[v.MountPath] = true, true, true
	}
	return nil
}

func isMountPath(p string) bool {
	return len(p) > 1 && len(p) <= mountPathBytesMax && p[0] == '/' && path.Clean(p) == p && utf8.ValidString(p) && !strings.ContainsRune(p, 0)
}

func checkVolumeMeasure(r wire.VolumeMeasureRequest) error {
	if len(r.VolumeIDs) > wire.MeasuresMax {
		return refuse("bad_request", "at most 500 volumes")
	}
	for _, id := range r.VolumeIDs {
		if !uuidPattern.MatchString(id) {
			return refuse("bad_request", "a volume is not a UUID")
		}
	}
	return nil
}
