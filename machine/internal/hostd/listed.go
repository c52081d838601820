package hostd

import (
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// listed remembers what inventories found in manifests whose seal was right. A manifest is never rewritten in place: while inode, size
// and change time hold, nobody has touched it since. A restore reads the file itself.
type listed struct {
	mu    sync.Mutex
	known map[string]listedManifest // by path
}

type listedManifest struct {
	inode   uint64
	size    int64
	ctimeNS int64
	saw     manifest
}

// look is one inventory's: what it does not find is forgotten with its end.
type look struct {
	of    *listed
	known map[string]listedManifest
	found map[string]listedManifest
}

func (l *listed) look() *look {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &look{of: l, known: l.known, found: make(map[string]listedManifest, len(l.known))}
}

// end is reached by a look that was cut short, too: what it forgets is only read once more.
func (k *look) end() {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	k.of.known = k.found
}

func (k *look) checkpoint(h *Host, workspace, id string) (wire.CheckpointInfo, error) {
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

// infoNow asks anew whether the memory can be restored here: engines come and go while a manifest stays.
func (h *Host) infoNow(m manifest) wire.CheckpointInfo {
	info := m.info()
	info.MemoryRefused, _ = h.refusesMemory(m)
	info.MissingFeatures = h.missingFor(m, info.MemoryRefused)
	return info
}
