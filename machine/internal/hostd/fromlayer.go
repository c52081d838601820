package hostd

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// diskFromLayer makes a disk of what a checkpoint has captured of one. What the agent of then knew of its commands stays behind: it is
// another workspace's, or of another life.
func (h *Host) diskFromLayer(name wire.CheckpointName, workspace, path string) error {
	m, err := h.readManifest(name.WorkspaceID, name.CheckpointID)
	if err != nil {
		return err
	}
	if !m.DiskOnly {
		return refuse("checkpoint_incompatible", "The checkpoint holds memory: it is restored")
	}
	from := filepath.Join(h.pool.CheckpointDir(name.WorkspaceID, name.CheckpointID), diskName)
	uuid, err := subvolumeUUID(from)
	if err != nil || uuid != m.DiskUUID {
		return corrupt(errors.Join(err, errors.New("the disk is not the one of this checkpoint")))
	}
	if err := h.pool.SnapshotDisk(from, workspace, path, false); err != nil {
		return notFoundIfGone(err)
	}
	left, err := os.ReadDir(filepath.Join(path, "state"))
	for _, entry := range left {
		err = errors.Join(err, os.RemoveAll(filepath.Join(path, "state", entry.Name())))
	}
	return err
}
