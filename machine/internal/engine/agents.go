package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/sealed"
)

// program is a sealed copy of the agent. No sandbox can change its file, so hostd can run it for disk reads.
type program struct {
	file     *os.File
	text     []byte // the file's content, mapped into memory
	modified time.Time
}

func (e *Engine) sealProgram(digest string) (*program, error) {
	path := e.agents.path(digest)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if digestOf(text) != digest {
		return nil, fmt.Errorf("agent %s: %w", digest, errAltered)
	}
	fd, err := sealed.FD("agent", text)
	if err != nil {
		return nil, err
	}
	mapped, err := unix.Mmap(fd, 0, len(text), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("mapping the agent: %w", err)
	}
	return &program{file: os.NewFile(uintptr(fd), "agent"), text: mapped, modified: info.ModTime()}, nil
}

func (p *program) close() error { return errors.Join(unix.Munmap(p.text), p.file.Close()) }

var errAltered = errors.New("the file that is kept is not the one that was stored")

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// An agent that is already stored is not written again: a full disk must not stop a hostd that brings the same agent.
func (e *Engine) storeAgent(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	digest := digestOf(text)
	if kept, err := os.ReadFile(e.agents.path(digest)); err == nil && digestOf(kept) == digest {
		return digest, nil
	}
	return digest, e.replaceAgent(digest, text, time.Now())
}

func (e *Engine) replaceAgent(digest string, text []byte, modified time.Time) error {
	copied, err := e.agents.stage(bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer copied.discard()
	return copied.become(digest, modified)
}

// In earlier releases a guest could write to the stored agent through its slot's hard link. partAgents breaks such
// links. An altered agent is refused when a machine needs it.
func (e *Engine) partAgents() error {
	names, err := e.agents.names()
	if err != nil {
		return err
	}
	for _, digest := range names {
		info, err := os.Stat(e.agents.path(digest))
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Nlink == 1 {
			continue
		}
		text, err := os.ReadFile(e.agents.path(digest))
		if err != nil {
			return err
		}
		if digestOf(text) != digest {
			e.log.Error("a kept agent was altered: machines that need it cannot be restored", "agent", digest)
			continue
		}
		if err := e.replaceAgent(digest, text, info.ModTime()); err != nil {
			return err
		}
	}
	return nil
}

// giveAgent sets the agent's modification time, because a restore compares size and time with those at the checkpoint.
func (e *Engine) giveAgent(s *Sandbox, digest string) error {
	from := e.program
	if digest != e.agent {
		older, err := e.sealProgram(digest)
		if err != nil {
			return err
		}
		defer older.close()
		from = older
	}
	target := filepath.Join(s.tree(), "agent")
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// The file is not synced: slots do not survive a power cut.
	if err := os.WriteFile(target, from.text, 0o555); err != nil {
		return err
	}
	return os.Chtimes(target, from.modified, from.modified)
}

// Agent returns the sealed binary that new sandboxes run.
func (e *Engine) Agent() *os.File { return e.program.file }
