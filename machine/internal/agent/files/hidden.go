package files

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A write fills a hidden file, then renames it to its final name. If the machine dies before the rename, the next
// agent that writes in the directory removes the hidden file.

const (
	hiddenPrefix = ".berth-"
	hiddenSuffix = ".tmp"
)

const (
	sweptMax      = 4096  // directories remembered as searched; when full, all are forgotten
	sweepNamesMax = 50000 // names read per directory
)

// Hidden reports whether name is the hidden name of an unfinished write.
func Hidden(name string) bool {
	return strings.HasPrefix(name, hiddenPrefix) && strings.HasSuffix(name, hiddenSuffix) && len(name) == len(hiddenPrefix)+32+len(hiddenSuffix)
}

var hidden = hiddenFiles{ours: map[string]bool{}, swept: map[[2]uint64]bool{}}

type hiddenFiles struct {
	mu    sync.Mutex
	ours  map[string]bool    // names in use by this agent
	swept map[[2]uint64]bool // by device and inode
}

func hiddenIn(dir int) (name string, done func(), err error) {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", nil, err
	}
	name = hiddenPrefix + hex.EncodeToString(random[:]) + hiddenSuffix
	hidden.mu.Lock()
	hidden.ours[name] = true
	hidden.mu.Unlock()
	hidden.sweepOnce(dir)
	return name, func() {
		hidden.mu.Lock()
		delete(hidden.ours, name)
		hidden.mu.Unlock()
	}, nil
}

func (h *hiddenFiles) sweepOnce(dir int) {
	var st unix.Stat_t
	if unix.Fstat(dir, &st) != nil {
		return // the write itself will report the error
	}
	key := [2]uint64{uint64(st.Dev), st.Ino}
	h.mu.Lock()
	known := h.swept[key]
	if len(h.swept) >= sweptMax {
		clear(h.swept)
	}
	h.swept[key] = true
	h.mu.Unlock()
	if known {
		return
	}
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	go func() {
		f := os.NewFile(uintptr(fd), "directory")
		defer f.Close()
		h.sweep(f)
	}()
}

func (h *hiddenFiles) sweep(dir *os.File) {
	for looked := 0; looked < sweepNamesMax; {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			if Hidden(name) && !h.isOurs(name) {
				_ = removeEntry(int(dir.Fd()), name, depthMax) // a file, or the directory of an unfinished unpack
			}
		}
		if err != nil {
			return
		}
		looked += len(names)
	}
}

func (h *hiddenFiles) isOurs(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ours[name]
}
