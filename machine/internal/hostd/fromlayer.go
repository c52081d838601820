package hostd

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// diskFromLayer copies a disk without the agent's records, which belong to another workspace or an earlier machine.
func (h *Host) diskFromLayer(name wire.CheckpointName, workspace, path string) error {
	m, err := h.readManifest(name.Owner(), name.CheckpointID)
	if err != nil {
		return err
	}
	if !m.DiskOnly {
		return refuse("checkpoint_incompatible", "The checkpoint holds memory: it is restored")
	}
	if err := h.snapshotOf(m, workspace, path); err != nil {
		return err
	}
	return emptyDirectory(filepath.Join(path, "state"))
}

// emptyDirectory reads the names in parts, because there may be very many.
func emptyDirectory(path string) error {
	for {
		dir, err := os.Open(path)
		if err != nil {
			return err
		}
		names, err := dir.Readdirnames(namesAtOnce)
		dir.Close()
		if errors.Is(err, io.EOF) {
			return nil
		}
		for _, name := range names {
			err = errors.Join(err, os.RemoveAll(filepath.Join(path, name)))
		}
		if err != nil {
			return err
		}
	}
}

const namesAtOnce = 1024

// diskOfCheckpoint keeps the agent's records: commands are reported as lost, but their output can be read.
func (h *Host) diskOfCheckpoint(m manifest, path string) error {
	return h.snapshotOf(m, m.Owner, path)
}

func (h *Host) snapshotOf(m manifest, workspace, path string) error {
	dir := h.pool.CheckpointDir(m.Owner, m.CheckpointID)
	if err := h.verifyDisk(dir, m); err != nil {
		return err
	}
	return notFoundIfGone(h.pool.SnapshotDisk(filepath.Join(dir, diskName), workspace, path, false))
}
