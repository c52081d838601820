package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// RemovedSlot is a slot that Adopt removed, because its sandbox does not run or was never finished.
type RemovedSlot struct {
	Record Record   // zero if the file is unreadable
	Ended  bool     // the slot was a running machine, so its end must be reported
	Stuck  *Sandbox // a machine that could not be removed; it must be removed before its workspace gets another
}

// Adopt returns the sandboxes that can go on, and removes the rest. A stuck slot does not stop the others.
func (e *Engine) Adopt(ctx context.Context) (alive []*Sandbox, gone []RemovedSlot, err error) {
	slots, err := e.everySlot()
	if err != nil {
		return nil, nil, err
	}
	for _, slot := range slots {
		s, problem := e.adoptSlot(slot)
		if problem == nil {
			e.hold(slot)
			alive = append(alive, s)
			continue
		}
		e.log.Info("removing an orphan sandbox", "slot", slot, "why", problem.Error())
		gone = append(gone, e.clearSlot(ctx, s))
	}
	return alive, gone, nil
}

func (e *Engine) clearSlot(ctx context.Context, s *Sandbox) RemovedSlot {
	left := RemovedSlot{Record: s.record, Ended: s.record.Kind == KindMachine && s.record.Claim.State != Assembling}
	if err := e.Remove(ctx, s); err != nil {
		e.log.Error("an orphan sandbox is not removed yet", "slot", s.Slot, "error", err)
		if left.Record.Claim != nil {
			e.hold(s.Slot)
			left.Stuck = s
		}
	}
	return left
}

func (e *Engine) everySlot() ([]string, error) {
	found := map[string]bool{}
	directories, err := os.ReadDir(e.slotsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, entry := range directories {
		found[entry.Name()] = true
	}
	groups, err := e.groups.List()
	if err != nil {
		return nil, err
	}
	networks, err := e.router.List()
	if err != nil {
		return nil, err
	}
	for _, slot := range append(groups, networks...) {
		found[slot] = true
	}
	for _, slot := range e.runscSlots() {
		found[slot] = true
	}
	return sortedKeys(found), nil
}

func (e *Engine) runscSlots() []string {
	var slots []string
	id := e.containerID("")
	paths, _ := filepath.Glob(filepath.Join(e.runscRoot(), "*"+id+"*")) // no error is possible, because the pattern is constant
	for _, path := range paths {
		name := filepath.Base(path)
		slot := name[strings.LastIndex(name, id)+len(id):]
		slot, _, _ = strings.Cut(slot, ".")
		if slot != "" {
			slots = append(slots, slot)
		}
	}
	return slots
}

func (e *Engine) adoptSlot(slot string) (*Sandbox, error) {
	s := &Sandbox{Slot: slot, Dir: filepath.Join(e.slotsDir(), slot)}
	record, err := readRecord(s.Dir)
	if err != nil {
		return s, err
	}
	if record.Claim != nil && record.Claim.State == Paused {
		record.Claim.State = Pausing // the guest may run again since this was written; Settle asks the sandbox
	}
	s.record = record
	if err := e.isSandboxOf(record.Sandbox, slot); err != nil {
		return s, err
	}
	if s.done, err = record.Sandbox.watch(); err != nil {
		return s, err
	}
	return s, e.mayGoOn(record)
}

func (e *Engine) mayGoOn(record Record) error {
	switch {
	case record.Kind == KindMachine && record.Claim.State == Assembling:
		return errors.New("its start or restore was cut short")
	case record.Kind == KindMachine:
		return nil
	case !record.Ready:
		return errors.New("it was not finished")
	case record.Layout != slotLayout:
		return errors.New("its directory is laid out otherwise")
	case record.Build() != e.Current() || record.AgentSHA256 != e.agent:
		return errors.New("it waits with another engine or agent")
	case record.Kind == KindWarm && !wire.SpeaksTo(record.AgentProtocol()):
		return errors.New("its agent speaks another protocol")
	}
	return nil
}

// isSandboxOf checks the process itself, because runsc's own files are not trusted.
func (e *Engine) isSandboxOf(process Process, slot string) error {
	if process.PID == 0 || !process.Alive() {
		return errGone
	}
	args := arguments(process.PID)
	if len(args) == 0 || args[0] != "runsc-sandbox" || !slices.Contains(args, e.containerID(slot)) {
		return fmt.Errorf("process %d is not the sandbox of slot %s", process.PID, slot)
	}
	members, err := e.groups.Get(slot).Procs()
	if err != nil {
		return err
	}
	if !slices.Contains(members, process.PID) {
		return fmt.Errorf("process %d is not in the cgroup of slot %s", process.PID, slot)
	}
	return nil
}

func sortedKeys(set map[string]bool) []string {
	keys := make([]string, 0, len(set))
	for key := range set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// RemoveAll removes all sandboxes of the instance.
func (e *Engine) RemoveAll(ctx context.Context) error {
	slots, err := e.everySlot()
	if err != nil {
		return err
	}
	for _, slot := range slots {
		s := &Sandbox{Slot: slot, Dir: filepath.Join(e.slotsDir(), slot)}
		err = errors.Join(err, e.Remove(ctx, s))
	}
	return err
}
