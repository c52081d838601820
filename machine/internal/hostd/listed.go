package hostd

import (
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// manifestCache serves inventories; a restore always reads the file. Manifests are never rewritten in place, so a file
// is unchanged while inode, size and change time match.
type manifestCache struct {
	mu    sync.Mutex
	known map[string]listedManifest
}

type listedManifest struct {
	inode   uint64
	size    int64
	ctimeNS int64
	saw     manifest
}

type cachePass struct {
	of    *manifestCache
	known map[string]listedManifest
	found map[string]listedManifest
}

func (l *manifestCache) look() *cachePass {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &cachePass{of: l, known: l.known, found: make(map[string]listedManifest, len(l.known))}
}

// end replaces the cache with the entries that this pass found. If the pass was interrupted, missing entries are read
// from their files again.
func (k *cachePass) end() {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	k.of.known = k.found
}

func (k *cachePass) checkpoint(h *Host, workspace, id string) (wire.CheckpointInfo, error) {
	path := filepath.Join(h.pool.CheckpointDir(workspace, id), manifestName)
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return wire.CheckpointInfo{}, err
	}
	if known, ok := k.known[path]; ok && known.inode == stat.Ino && known.size == stat.Size && known.ctimeNS == stat.Ctim.Nano() {
		k.found[path] = known
		return h.infoNow(known.saw), nil
	}
	m, err := h.readManifest(workspace, id)
	if err != nil {
		return wire.CheckpointInfo{}, err
	}
	k.found[path] = listedManifest{inode: stat.Ino, size: stat.Size, ctimeNS: stat.Ctim.Nano(), saw: m}
	return h.infoNow(m), nil
}

// infoNow checks the engines at each call, because they are added and removed while the manifest is unchanged.
func (h *Host) infoNow(m manifest) wire.CheckpointInfo {
	info := m.info()
	info.MemoryRefused, _ = h.refusesMemory(m)
	info.MissingFeatures = h.missingFor(m, info.MemoryRefused)
	return info
}
