package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	answerBound = 30 * time.Second
	saveBound   = 10 * time.Minute
)

// ImageFiles lists a checkpoint's files in the order that the sandbox expects.
var ImageFiles = []string{"checkpoint.img", "pages_meta.img", "pages.img"}

// Pause stops every task of the guest. Settle runs first: the sandbox counts pauses, and a second Pause would need a
// second Resume.
func (e *Engine) Pause(ctx context.Context, s *Sandbox) error {
	if err := e.Settle(ctx, s); err != nil {
		return err
	}
	if s.Record().Claim.State == Paused {
		return nil
	}
	// The state is stored first, so that a hostd that restarts here asks the sandbox whether it is paused.
	if err := s.setState(Pausing); err != nil {
		return err
	}
	if _, err := e.callSandbox(ctx, s, answerBound, "containerManager.Pause", nil); err != nil {
		return err
	}
	e.noteState(s, Paused)
	return nil
}

// Unpause settles an uncertain state first, because a Resume of a running guest would end the sandbox.
func (e *Engine) Unpause(ctx context.Context, s *Sandbox) error {
	if err := e.Settle(ctx, s); err != nil {
		return err
	}
	if s.Record().Claim.State != Paused {
		return nil
	}
	if _, err := e.callSandbox(ctx, s, answerBound, "containerManager.Resume", nil); err != nil {
		e.noteState(s, Pausing)
		return err
	}
	e.noteState(s, Running)
	return nil
}

// Settle asks the sandbox for its state if a pause or resume was interrupted.
func (e *Engine) Settle(ctx context.Context, s *Sandbox) error {
	if s.Record().Claim.State != Pausing {
		return nil
	}
	paused, err := e.IsPaused(ctx, s)
	if err != nil {
		return err
	}
	if paused {
		e.noteState(s, Paused)
	} else {
		e.noteState(s, Running)
	}
	return nil
}

// Save needs a guest that Pause has paused. `Resume` prevents that the sandbox ends, even after a failure.
func (e *Engine) Save(ctx context.Context, s *Sandbox, dir string) error {
	files, err := createImage(dir)
	defer closeAll(files)
	if err != nil {
		return err
	}
	options := map[string]any{"metadata": map[string]string{"compression": "none"}, "have_pages_file": true, "Resume": true}
	_, err = e.callSandbox(ctx, s, saveBound, "containerManager.Checkpoint", options, files...)
	return err
}

func (e *Engine) callSandbox(ctx context.Context, s *Sandbox, within time.Duration, method string, arg any, files ...*os.File) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return control(ctx, e.controlSocket(s.Slot), method, arg, files...)
}

func createImage(dir string) ([]*os.File, error) {
	var files []*os.File
	for _, name := range ImageFiles {
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return files, err
		}
		files = append(files, file)
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		file.Close()
	}
}

// IsPaused looks for doStop in the stacks, where a paused task waits. The sandbox has no call that reports its state,
// and a guest could forge its agent's silence.
func (e *Engine) IsPaused(ctx context.Context, s *Sandbox) (bool, error) {
	result, err := e.callSandbox(ctx, s, answerBound, "debug.Stacks", nil)
	if err != nil {
		return false, err
	}
	var stacks string
	if err := json.Unmarshal(result, &stacks); err != nil {
		return false, fmt.Errorf("stacks: %w", err)
	}
	return allStopped(stacks)
}

func allStopped(stacks string) (bool, error) {
	tasks := 0
	for _, stack := range strings.Split(stacks, "\n\n") {
		if !strings.Contains(stack, "kernel.(*Task).run(") {
			continue
		}
		tasks++
		if !strings.Contains(stack, "kernel.(*Task).doStop(") {
			return false, nil
		}
	}
	if tasks == 0 {
		return false, errors.New("the sandbox shows no task at all")
	}
	return true, nil
}

// A full disk must not keep a guest paused, so a failure is only logged. The next hostd asks the sandbox.
func (e *Engine) noteState(s *Sandbox, state string) {
	if err := s.setState(state); err != nil {
		e.log.Error("the record of a sandbox is old", "slot", s.Slot, "state", state, "error", err)
	}
}

func (s *Sandbox) setState(state string) error {
	return s.Update(func(r *Record) { r.Claim.State = state })
}
