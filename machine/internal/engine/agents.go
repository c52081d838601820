package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// storeAgent keeps a copy of an agent's binary under its digest, beside the slots, so that a slot can have it as a hard link. A restore
// wants the very file that ran at the checkpoint: one inode, one modification time.
func (e *Engine) storeAgent(path string) (string, error) {
	source, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer source.Close()
	// Read before it is copied: a disk without room must not keep a hostd from starting that brings nothing new.
	hash := sha256.New()
	if _, err := io.Copy(hash, source); err != nil {
		return "", err
	}
	if digest := hex.EncodeToString(hash.Sum(nil)); e.agents.has(digest) {
		return digest, nil
	}
	if _, err := source.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	copied, err := e.agents.stage(source)
	if err != nil {
		return "", err
	}
	defer copied.discard()
	return copied.digest, copied.become(copied.digest, time.Now())
}

// linkAgent makes /agent of a slot the binary of a digest.
func (e *Engine) linkAgent(s *Sandbox, digest string) error {
	target := filepath.Join(s.root(), "agent")
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(e.agents.path(digest), target); err != nil {
		return fmt.Errorf("agent %s: %w", digest, err)
	}
	return nil
}

// AgentPath is the binary that new slots run.
func (e *Engine) AgentPath() string { return e.agents.path(e.agent) }
