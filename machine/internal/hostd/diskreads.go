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
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	diskReadersMax = 16               // at once, 15-30 MiB each
	diskReaderIdle = 30 * time.Second // then a reader ends by itself
	// A reader that answered this lately is not about to end.
	diskReaderFresh = diskReaderIdle / 2
	// How long a call waits while a verb works on the workspace.
	diskReadPatience = 3 * time.Second
	endReaderTime    = 10 * time.Second
)

// diskReads are the processes that read sleeping workspaces' disks. Each is started, handed out and ended within the turn of its
// workspace, so that none begins while a verb works on what it would read.
type diskReads struct {
	starter *diskread.Starter
	mu      sync.Mutex
	readers map[string]*openReader // by workspace; nil while one is being started
}

type openReader struct {
	*diskread.Reader
	source wire.DiskReadRequest
	seen   time.Time
}

func (h *Host) openDiskReads() error {
	starter, err := diskread.Open(diskread.Config{Instance: h.config.Instance, Dir: h.config.runPath("reads"), SocketUID: h.config.SocketUID, Idle: diskReaderIdle}, h.groups)
	h.reads = diskReads{starter: starter, readers: map[string]*openReader{}}
	return err
}

// readDisk hands out the reader of a workspace that sleeps here, and starts one where there is none.
func (h *Host) readDisk(ctx context.Context, r wire.DiskReadRequest) (wire.DiskReader, error) {
	waiting, cancel := context.WithTimeout(ctx, diskReadPatience)
	defer cancel()
	release, err := h.jobs.acquire(waiting, r.WorkspaceID)
	if err != nil {
		return wire.DiskReader{}, refuse("already_running", "The workspace is being worked on")
	}
	defer release()
	if h.machine(r.WorkspaceID) != nil {
		return wire.DiskReader{}, refuse("already_running", "The workspace has a machine")
	}
	if known := h.knownReader(ctx, r); known != nil {
		return known.Access, nil
	}
	if err := h.endDiskReader(r.WorkspaceID); err != nil {
		return wire.DiskReader{}, err
	}
	lower, err := h.sleepingDisk(r)
	if err != nil {
		return wire.DiskReader{}, err
	}
	reader, err := h.startReader(ctx, r, lower)
	if err != nil {
		return wire.DiskReader{}, because("start_failed", "The disk's reader could not be started", err)
	}
	return reader.Access, nil
}

// knownReader is the one that runs, unless it reads something else or is about to end.
func (h *Host) knownReader(ctx context.Context, r wire.DiskReadRequest) *openReader {
	h.reads.mu.Lock()
	known := h.reads.readers[r.WorkspaceID]
	h.reads.mu.Unlock()
	if known == nil || isDone(known.Done()) || !sameSource(known.source, r) {
		return nil
	}
	// The turn guards seen.
	if now := time.Now(); now.Sub(known.seen) > diskReaderFresh || r.DoubtedAddress == known.Access.Address {
		if !known.Awake(ctx) {
			return nil
		}
		known.seen = now
	}
	return known
}

func sameSource(a, b wire.DiskReadRequest) bool {
	return a.CheckpointID == b.CheckpointID && (a.CheckpointID != "" || slices.Equal(a.Layers, b.Layers))
}

// sleepingDisk names the directories of the disk, topmost first, and checks that it is the one that was captured.
func (h *Host) sleepingDisk(r wire.DiskReadRequest) ([]string, error) {
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

func (h *Host) startReader(ctx context.Context, r wire.DiskReadRequest, lower []string) (*openReader, error) {
	h.reads.mu.Lock()
	if len(h.reads.readers) >= diskReadersMax {
		h.reads.mu.Unlock()
		return nil, refuse("no_capacity", "Too many sleeping workspaces are being read")
	}
	h.reads.readers[r.WorkspaceID] = nil
	h.reads.mu.Unlock()
	reader, err := h.reads.starter.Start(ctx, h.engine.Agent(), lower)
	h.reads.mu.Lock()
	defer h.reads.mu.Unlock()
	if err != nil {
		delete(h.reads.readers, r.WorkspaceID)
		return nil, err
	}
	open := &openReader{Reader: reader, source: r, seen: time.Now()}
	h.reads.readers[r.WorkspaceID] = open
	go h.clearEndedReader(r.WorkspaceID, open)
	return open, nil
}

// clearEndedReader clears up after a reader that ended by itself.
func (h *Host) clearEndedReader(workspace string, reader *openReader) {
	<-reader.Done()
	h.reads.mu.Lock()
	mine := h.reads.readers[workspace] == reader
	if mine {
		delete(h.reads.readers, workspace)
	}
	h.reads.mu.Unlock()
	if !mine {
		return // whoever ended it clears up
	}
	if err := endReader(reader); err != nil {
		h.log.Error("a disk's reader is not cleared away", "workspace", workspace, "error", err)
	}
}

// endDiskReader returns when nothing reads the workspace's disk any more. The caller has the workspace's turn.
func (h *Host) endDiskReader(workspace string) error {
	h.reads.mu.Lock()
	reader := h.reads.readers[workspace]
	delete(h.reads.readers, workspace)
	h.reads.mu.Unlock()
	if reader == nil {
		return nil
	}
	return endReader(reader)
}

func (h *Host) readsCheckpoint(workspace, id string) bool {
	h.reads.mu.Lock()
	defer h.reads.mu.Unlock()
	reader := h.reads.readers[workspace]
	return reader != nil && reader.source.CheckpointID == id
}

func (h *Host) endDiskReaders() error {
	h.reads.mu.Lock()
	readers := h.reads.readers
	h.reads.readers = map[string]*openReader{}
	h.reads.mu.Unlock()
	var failed error
	for _, reader := range readers {
		if reader != nil {
			failed = errors.Join(failed, endReader(reader))
		}
	}
	return failed
}

func endReader(reader *openReader) error {
	ctx, cancel := context.WithTimeout(context.Background(), endReaderTime)
	defer cancel()
	return reader.End(ctx)
}

func checkDiskRead(r wire.DiskReadRequest) error {
	if !uuidPattern.MatchString(r.WorkspaceID) {
		return refuse("bad_request", "workspace_id is not a UUID")
	}
	if r.CheckpointID != "" {
		return checkCheckpointID(r.CheckpointID)
	}
	return checkLayers(r.Layers)
}
