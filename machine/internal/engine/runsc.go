package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	commandTime = 120 * time.Second // bounds one run of runsc. A restore reads its whole image within it
	tailBytes   = 2048
)

// runsc runs one command of the engine for a slot, under the slot's own build: the flags here are those that every kept build knows.
// Its standard streams go to the sandbox as well, so they are files, never a pipe.
func (e *Engine) runsc(ctx context.Context, slot *Sandbox, command ...string) error {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	log := filepath.Join(slot.Dir, "runsc.log")
	args := append([]string{"--root", e.runscRoot(), "--log", log, "--log-format", "json",
		"--platform", "systrap", "--network", "sandbox", "--overlay2", "none", "--file-access", "exclusive",
		"--allow-suid", "--host-uds", "none"}, command...)
	run := exec.CommandContext(ctx, e.builds.path(slot.Record().Engine), args...)
	run.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	run.Dir = slot.Dir
	errors, err := os.OpenFile(e.stderrPath(slot.Slot), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer errors.Close()
	run.Stderr = errors
	if err := e.spawn.start(run); err != nil {
		return fmt.Errorf("runsc %s: %w", command[0], err)
	}
	if err := run.Wait(); err != nil {
		return fmt.Errorf("runsc %s: %w: %s", command[0], err, e.lastWords(slot, log))
	}
	return nil
}

// runscVersion is the whole of `runsc --version`'s first line after the word "version": a checkpoint restores only under the very same.
func runscVersion(ctx context.Context, binary string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	output, err := exec.CommandContext(ctx, binary, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", binary, err)
	}
	line, _, _ := bytes.Cut(output, []byte("\n"))
	version := strings.TrimSpace(strings.TrimPrefix(string(line), "runsc version"))
	if version == "" {
		return "", errors.New("runsc does not say its version")
	}
	return version, nil
}

// lastWords are the last bytes a command wrote, for the log of hostd.
func (e *Engine) lastWords(slot *Sandbox, log string) string {
	words := append(tail(log), tail(e.stderrPath(slot.Slot))...)
	return strings.TrimSpace(string(words))
}

// tail reads no more than it gives: what a sandbox wrote may be as long as stderrBytes.
func tail(path string) []byte {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil
	}
	text, err := io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-tailBytes), tailBytes))
	if err != nil {
		return nil
	}
	return text
}

func (e *Engine) runscRoot() string { return filepath.Join(e.config.RunDir, "runsc") }

// stderrPath is in a small file system of its own: what a sandbox writes there is bounded, whatever the guest does.
func (e *Engine) stderrPath(slot string) string { return filepath.Join(e.logsDir(), slot) }

func (e *Engine) containerID(slot string) string { return "berth-" + e.config.Instance + "-" + slot }

func (e *Engine) controlSocket(slot string) string {
	return filepath.Join(e.runscRoot(), "runsc-"+e.containerID(slot)+".sock")
}

// forget removes what runsc keeps about a sandbox that is gone. `runsc delete` does the same in 15 ms, and refuses what it forgot.
func (e *Engine) forget(slot string) error {
	id := e.containerID(slot)
	paths, err := filepath.Glob(filepath.Join(e.runscRoot(), "*"+id+"*"))
	if err != nil {
		return err
	}
	for _, path := range append(paths, e.stderrPath(slot)) {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}
