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
)

// storeAgent keeps a copy of an agent's binary under its digest, beside the slots, so that a slot can have it as a hard link. A restore
// wants the very file that ran at the checkpoint: one inode, one modification time.
func (e *Engine) storeAgent(path string) (string, error) {
	source, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer source.Close()
	temporary, err := os.CreateTemp(e.agentsDir(), "tmp-")
	if err != nil {
		return "", err
	}
	defer os.Remove(temporary.Name())
	defer temporary.Close()
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(temporary, hash), source); err != nil {
		return "", err
	}
	digest := hex.EncodeToString(hash.Sum(nil))
	if _, err := os.Stat(e.agentPath(digest)); err == nil {
		return digest, nil
	}
	if err := errors.Join(temporary.Chmod(0o555), temporary.Sync(), os.MkdirAll(filepath.Dir(e.agentPath(digest)), 0o700)); err != nil {
		return "", err
	}
	return digest, os.Rename(temporary.Name(), e.agentPath(digest))
}

// HasAgent says whether the binary that a checkpoint names is kept here.
func (e *Engine) HasAgent(digest string) bool {
	_, err := os.Stat(e.agentPath(digest))
	return err == nil
}

// KeepAgents removes the binaries that neither the new slots nor the given digests need.
func (e *Engine) KeepAgents(needed map[string]bool) error {
	entries, err := os.ReadDir(e.agentsDir())
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == e.agent || needed[entry.Name()] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(e.agentsDir(), entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// linkAgent makes /agent of a slot the binary of a digest.
func (e *Engine) linkAgent(s *Sandbox, digest string) error {
	target := filepath.Join(s.root(), "agent")
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(e.agentPath(digest), target); err != nil {
		return fmt.Errorf("agent %s: %w", digest, err)
	}
	return nil
}

// AgentPath is the binary that new slots run.
func (e *Engine) AgentPath() string { return e.agentPath(e.agent) }

func (e *Engine) agentPath(digest string) string {
	return filepath.Join(e.agentsDir(), digest, "agent")
}
