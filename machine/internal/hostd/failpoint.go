package hostd

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// FailpointVariable is an environment variable with a value such as "checkpoint.save:kill9,stop.kill:throw".
const FailpointVariable = "BERTH_FAILPOINT"

// FailpointNames lists all failpoints. Each lies just before the step that it names.
var FailpointNames = []string{
	"start.disk", "start.slot", "start.mount", "start.claim", "start.commit", "start.answer",
	"connect.network", "fit.disk", "fit.mount", "fit.ready",
	"checkpoint.flush", "checkpoint.pause", "checkpoint.save", "checkpoint.snapshot", "checkpoint.resume",
	"checkpoint.sync", "checkpoint.manifest", "checkpoint.rename", "checkpoint.answer",
	"unpause.resume",
	"restore.verify", "restore.disk", "restore.shell", "restore.address", "restore.mount", "restore.incarnation", "restore.restore",
	"restore.agent", "restore.commit", "restore.answer",
	"clone.verify", "clone.parts", "clone.disk", "clone.manifest", "clone.answer",
	"stop.kill", "stop.unmount", "stop.answer",
	"fence.write", "delete.stop", "delete.files", "delete.answer",
	"volume_create.storage", "volume_create.answer", "volume_delete.detach", "volume_delete.storage", "volume_delete.answer",
	"layer_make.write", "layer_make.rename", "layer_make.answer",
	"layer_drop.unmount", "layer_drop.remove", "layer_drop.answer",
	"tree_apply.files", "tree_apply.record",
	"volumes.mount", "volumes.guest", "volumes.commit",
}

// Failpoints maps names to kill9, stop (until SIGCONT) or throw (the step fails). Each failpoint fires once.
type Failpoints map[string]string

var errFailpoint = errors.New("a failpoint made this step fail")

type failpoints struct {
	mu      sync.Mutex
	set     Failpoints
	enabled bool
}

// ParseFailpoints parses the value of FailpointVariable.
func ParseFailpoints(text string) (Failpoints, error) {
	points := Failpoints{}
	for _, part := range strings.Split(text, ",") {
		name, action, ok := strings.Cut(part, ":")
		if !ok {
			return nil, fmt.Errorf("failpoint %q is not name:action", part)
		}
		points[name] = action
	}
	return points, points.check()
}

func (f Failpoints) check() error {
	for name, action := range f {
		if !slices.Contains(FailpointNames, name) {
			return fmt.Errorf("there is no failpoint %q", name)
		}
		if !slices.Contains([]string{"kill9", "stop", "throw"}, action) {
			return fmt.Errorf("failpoint %s: there is no action %q", name, action)
		}
	}
	return nil
}

func (f *failpoints) replace(points Failpoints) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set = points
}

func (f *failpoints) waiting() Failpoints {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.set)
}

func (f *failpoints) at(name string) error {
	f.mu.Lock()
	action := f.set[name]
	delete(f.set, name)
	f.mu.Unlock()
	if !slices.Contains(FailpointNames, name) {
		panic("unknown failpoint " + name)
	}
	switch action {
	case "":
		return nil
	case "kill9":
		unix.Kill(os.Getpid(), unix.SIGKILL)
		select {} // waits for the signal, so that no further step runs
	case "stop":
		return unix.Kill(os.Getpid(), unix.SIGSTOP)
	}
	return fmt.Errorf("%s: %w", name, errFailpoint)
}
