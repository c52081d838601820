package files

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A file is written under a hidden name in its directory, and renamed when it is whole. The machine may die meanwhile, and the hidden file
// stays. The next agent that writes into the directory removes it.

const (
	hiddenPrefix = ".berth-"
	hiddenSuffix = ".tmp"
)

const (
	sweptMax      = 4096  // directories that are known to be looked through; beyond it some are looked through again
	sweepNamesMax = 50000 // names of one directory that are looked at
)

// Hidden is a file that a write has not finished.
func Hidden(name string) bool {
	return strings.HasPrefix(name, hiddenPrefix) && strings.HasSuffix(name, hiddenSuffix) && len(name) == len(hiddenPrefix)+32+len(hiddenSuffix)
}

var hidden = hiddenFiles{ours: map[string]bool{}, swept: map[[2]uint64]bool{}}

type hiddenFiles struct {
	mu    sync.Mutex
	ours  map[string]bool    // names that this agent is writing under
	swept map[[2]uint64]bool // device and inode of the directories that were looked through
}

// hiddenIn gives a name in an open directory for a file that is about to be written, until done is called.
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

// sweepOnce removes, beside the write that goes on, what agents before this one left in the directory.
func (h *hiddenFiles) sweepOnce(dir int) {
	var st unix.Stat_t
	if unix.Fstat(dir, &st) != nil {
		return // whoever writes there meets it as well
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
		return // the files stay, hidden
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
				_ = removeEntry(int(dir.Fd()), name, depthMax) // a file, or a directory that a tar was unpacked in
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
