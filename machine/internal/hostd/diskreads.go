package hostd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/diskread"
	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	diskReaderIdle = 30 * time.Second // a reader ends itself after this time without calls
	// A reader that answered within this time will not end itself soon, so it is not asked again.
	diskReaderFresh = diskReaderIdle / 2
	// A read waits this long for the workspace's queue, which a verb may hold.
	diskReadPatience = 3 * time.Second
	endReaderTime    = 10 * time.Second
)

// diskReads lists the disk readers by workspace. The workspace's queue guards their start, hand-out and end, so no
// reader starts while a verb changes its disk.
type diskReads struct {
	starter *diskread.Starter
	mu      sync.Mutex
	readers map[string]*openReader
}

type openReader struct {
	*diskread.Reader // nil while it starts

	source wire.DiskReadRequest
	disk   string // disk of a running machine; "" for a hibernated workspace
	seen   time.Time
	used   time.Time    // last time it was handed out; guarded by diskReads.mu
	end    func() error // can be called by several callers, and runs once
}

func (h *Host) readDisk(ctx context.Context, r wire.DiskReadRequest) (wire.DiskReader, error) {
	waiting, cancel := context.WithTimeout(ctx, diskReadPatience)
	defer cancel()
	release, err := h.jobs.acquire(waiting, r.WorkspaceID)
	if err != nil {
		return wire.DiskReader{}, refuse("already_running", "The workspace is being worked on")
	}
	defer release()
	if r.MachineEpoch != 0 {
		return h.readRunning(ctx, r)
	}
	return h.readHibernated(ctx, r)
}

func (h *Host) openDiskReads() error {
	starter, err := diskread.Open(diskread.Config{Instance: h.config.Instance, Dir: h.config.runPath("reads"), SocketUID: h.config.SocketUID, Idle: diskReaderIdle}, h.groups)
	h.reads = diskReads{starter: starter, readers: map[string]*openReader{}}
	return err
}

func (h *Host) readHibernated(ctx context.Context, r wire.DiskReadRequest) (wire.DiskReader, error) {
	if h.machine(r.WorkspaceID) != nil {
		return wire.DiskReader{}, refuse("already_running", "The workspace has a machine")
	}
	return h.handOutReader(ctx, r, "", func() (diskread.Disk, error) {
		lower, err := h.hibernatedDisk(r)
		return h.reads.starter.Hibernated(lower), err
	})
}

// readRunning reads a running machine's disk. Machine and reader see a write at once (decision 272).
func (h *Host) readRunning(ctx context.Context, r wire.DiskReadRequest) (wire.DiskReader, error) {
	s := h.machine(r.WorkspaceID)
	if s == nil || s.Record().Claim.Epoch != r.MachineEpoch {
		return wire.DiskReader{}, refuse("not_running", "The workspace has no machine of this epoch here")
	}
	record := s.Record()
	if record.Claim.State != engine.Running {
		return wire.DiskReader{}, refuse("already_running", "The workspace is being worked on")
	}
	return h.handOutReader(ctx, r, record.Claim.Disk, func() (diskread.Disk, error) {
		return diskread.Disk{CPUMillis: record.Size.CPUMillis, Open: func() (*os.File, error) { return h.engine.OpenDisk(s) }}, nil
	})
}

func (h *Host) handOutReader(ctx context.Context, r wire.DiskReadRequest, disk string, find func() (diskread.Disk, error)) (wire.DiskReader, error) {
	if known := h.knownReader(ctx, r, disk); known != nil {
		h.reads.use(known)
		return known.Access, nil
	}
	if err := h.endDiskReader(r.WorkspaceID); err != nil {
		return wire.DiskReader{}, err
	}
	found, err := find()
	if err != nil {
		return wire.DiskReader{}, err
	}
	reader, err := h.startReader(ctx, &openReader{source: r, disk: disk}, found)
	if err != nil {
		return wire.DiskReader{}, because("start_failed", "The disk's reader could not be started", err)
	}
	return reader.Access, nil
}

func (h *Host) knownReader(ctx context.Context, r wire.DiskReadRequest, disk string) *openReader {
	h.reads.mu.Lock()
	known := h.reads.readers[r.WorkspaceID]
	h.reads.mu.Unlock()
	if !known.runs() || isDone(known.Done()) || known.disk != disk || !sameSource(known.source, r) {
		return nil
	}
	// known.seen needs no lock, because the workspace's queue guards it.
	if now := time.Now(); now.Sub(known.seen) > diskReaderFresh || r.DoubtedAddress == known.Access.Address {
		if !known.Awake(ctx) {
			return nil
		}
		known.seen = now
	}
	return known
}

func (o *openReader) runs() bool { return o != nil && o.Reader != nil }

func sameSource(a, b wire.DiskReadRequest) bool {
	return a.CheckpointID == b.CheckpointID && (a.CheckpointID != "" || slices.Equal(a.Layers, b.Layers))
}

// hibernatedDisk returns the directories of the captured disk, topmost first.
func (h *Host) hibernatedDisk(r wire.DiskReadRequest) ([]string, error) {
	if r.CheckpointID == "" {
		lower, err := h.mountLayers(r.Layers)
		return append([]string{h.reads.starter.Empty()}, lower...), err
	}
	m, err := h.readManifest(r.WorkspaceID, r.CheckpointID)
	if err != nil {
		return nil, err
	}
	disk := filepath.Join(h.pool.CheckpointDir(r.WorkspaceID, r.CheckpointID), diskName)
	uuid, err := subvolumeUUID(disk)
	if err != nil || uuid != m.DiskUUID {
		return nil, because("checkpoint_corrupt", "The checkpoint's disk is not the one that was captured", errors.Join(err, os.ErrInvalid))
	}
	lower, err := h.mountLayers(m.Layers)
	return append([]string{filepath.Join(disk, "upper")}, lower...), err
}

func (h *Host) startReader(ctx context.Context, open *openReader, disk diskread.Disk) (*openReader, error) {
	workspace := open.source.WorkspaceID
	if err := h.acquirePermit(open); err != nil {
		return nil, err
	}
	reader, err := h.reads.starter.Start(ctx, h.engine.Agent(), disk)
	h.reads.mu.Lock()
	defer h.reads.mu.Unlock()
	if err != nil {
		delete(h.reads.readers, workspace)
		return nil, err
	}
	open.Reader, open.seen, open.used = reader, time.Now(), time.Now()
	open.end = sync.OnceValue(func() error { return endReader(reader) })
	h.reads.readers[workspace] = open
	go h.clearEndedReader(workspace, open)
	return open, nil
}

func (h *Host) clearEndedReader(workspace string, reader *openReader) {
	<-reader.Done()
	h.reads.mu.Lock()
	mine := h.reads.readers[workspace] == reader
	if mine {
		delete(h.reads.readers, workspace)
	}
	h.reads.mu.Unlock()
	if !mine {
		return // the caller that removed the reader from the list ends it
	}
	if err := reader.end(); err != nil {
		h.log.Error("a disk reader is not removed", "workspace", workspace, "error", err)
	}
}

// endDiskReader returns when no process reads the disk. The caller must hold the workspace's queue.
func (h *Host) endDiskReader(workspace string) error {
	h.reads.mu.Lock()
	reader := h.reads.readers[workspace]
	delete(h.reads.readers, workspace)
	h.reads.mu.Unlock()
	if !reader.runs() {
		return nil
	}
	return reader.end()
}

func (h *Host) endMachineReader(workspace, disk string) error {
	h.reads.mu.Lock()
	reader := h.reads.readers[workspace]
	h.reads.mu.Unlock()
	if !reader.runs() || reader.disk != disk {
		return nil
	}
	return h.endDiskReader(workspace)
}

func (h *Host) readsCheckpoint(workspace, id string) bool {
	h.reads.mu.Lock()
	defer h.reads.mu.Unlock()
	reader := h.reads.readers[workspace]
	return reader.runs() && reader.source.CheckpointID == id
}

func (h *Host) endDiskReaders() error {
	h.reads.mu.Lock()
	readers := h.reads.readers
	h.reads.readers = map[string]*openReader{}
	h.reads.mu.Unlock()
	var failed error
	for _, reader := range readers {
		if reader.runs() {
			failed = errors.Join(failed, reader.end())
		}
	}
	return failed
}

func endReader(reader *diskread.Reader) error {
	ctx, cancel := context.WithTimeout(context.Background(), endReaderTime)
	defer cancel()
	return reader.End(ctx)
}

func checkDiskRead(r wire.DiskReadRequest) error {
	if !uuidPattern.MatchString(r.WorkspaceID) || r.Tenant != "" && !uuidPattern.MatchString(r.Tenant) {
		return refuse("bad_request", "workspace_id or tenant is not a UUID")
	}
	if r.MachineEpoch != 0 {
		if r.MachineEpoch < 0 || r.CheckpointID != "" || len(r.Layers) > 0 {
			return refuse("bad_request", "machine_epoch is of a workspace that runs: nothing else says what its disk is")
		}
		return nil
	}
	if r.CheckpointID != "" {
		return checkCheckpointID(r.CheckpointID)
	}
	return checkLayers(r.Layers)
}
