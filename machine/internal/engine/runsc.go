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
	commandTime = 120 * time.Second // time limit of one run of runsc, including the read of an image
	tailBytes   = 2048
)

// Every stored build must support these flags. The sandbox inherits the streams, so they are files, never pipes.
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

func (e *Engine) lastWords(slot *Sandbox, log string) string {
	words := append(tail(log), tail(e.stderrPath(slot.Slot))...)
	return strings.TrimSpace(string(words))
}

// tail reads only the file's end, because the file may be as long as stderrBytes.
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

// The directory is a small file system, which bounds the output.
func (e *Engine) stderrPath(slot string) string { return filepath.Join(e.logsDir(), slot) }

func (e *Engine) containerID(slot string) string { return "berth-" + e.config.Instance + "-" + slot }

func (e *Engine) controlSocket(slot string) string {
	return filepath.Join(e.runscRoot(), "runsc-"+e.containerID(slot)+".sock")
}

// forget deletes runsc's files directly. `runsc delete` takes 15 ms, and fails on a sandbox without a container file.
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
