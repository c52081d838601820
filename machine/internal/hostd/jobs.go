package hostd

import (
	"context"
	"errors"
	"sort"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/ongoing"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// The time limit of a verb, enough for the copy of a large image.
const verbTime = 15 * time.Minute

// jobs runs one verb at a time per workspace and refuses tokens below the highest seen. A repeat with the same token
// and step gets the running job's result. A job continues when its caller disconnects.
type jobs struct {
	fences     *fences
	mu         sync.Mutex
	highest    int64 // highest fencing token of all workspaces
	workspaces map[string]*workspaceQueue
	running    ongoing.Group
}

type workspaceQueue struct {
	fence int64
	turn  chan struct{} // holds one token while a job runs
	users int           // number of callers that hold or wait for the queue
	known map[jobKey]*job
}

type jobKey struct {
	fence      int64
	verb, step string
}

type job struct {
	done  chan struct{}
	value any
	err   error
}

// call is one verb to run. others maps further workspaces that the verb changes to their tokens.
type call struct {
	verb     string
	fence    wire.Fence
	others   map[string]int64
	remember bool // a repeat gets the first answer; without it the verb is idempotent and runs again
	unqueued bool // skips the queue: only its fencing token is checked
	do       func(context.Context) (any, error)
}

func newJobs(fences *fences) (*jobs, error) {
	j := &jobs{fences: fences, workspaces: map[string]*workspaceQueue{}}
	known, err := fences.list()
	for _, workspace := range known {
		fence, wrong := fences.read(workspace)
		j.highest, err = max(j.highest, fence), errors.Join(err, wrong)
	}
	return j, err
}

func (j *jobs) highestFence() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.highest
}

func (j *jobs) run(ctx context.Context, c call) (any, error) {
	found, err := j.startOrJoin(c)
	if err != nil {
		return nil, err
	}
	select {
	case <-found.done:
		return found.value, found.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (j *jobs) startOrJoin(c call) (*job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	own, err := j.raise(c.fence.Owner(), c.fence.Fence)
	if err != nil {
		return nil, err
	}
	key := jobKey{c.fence.Fence, c.verb, c.fence.Step}
	if found, ok := own.known[key]; ok {
		return found, nil
	}
	for workspace, fence := range c.others {
		if _, err := j.raise(workspace, fence); err != nil {
			return nil, err
		}
	}
	if len(own.known) >= answersKept {
		return nil, refuse("bad_request", "too many steps with one fence")
	}
	started := &job{done: make(chan struct{})}
	own.known[key] = started
	j.running.Go(func() {
		started.value, started.err = j.take(c)
		if !c.remember {
			j.drop(own, key)
		}
		close(started.done)
	})
	return started, nil
}

// raise stores a higher token on disk before it uses it in memory. The caller must hold the lock.
func (j *jobs) raise(workspace string, fence int64) (*workspaceQueue, error) {
	own, err := j.turnsOf(workspace)
	if err != nil {
		return nil, err
	}
	if fence < own.fence {
		return nil, refuse("fenced", "A newer attempt has taken over this workspace")
	}
	if fence == own.fence {
		return own, nil
	}
	if err := j.fences.write(workspace, fence); err != nil {
		return nil, err
	}
	own.fence, j.highest = fence, max(j.highest, fence)
	own.forgetDone()
	return own, nil
}

func (t *workspaceQueue) forgetDone() {
	for key, known := range t.known {
		if isDone(known.done) {
			delete(t.known, key)
		}
	}
}

func (j *jobs) turnsOf(workspace string) (*workspaceQueue, error) {
	if own, ok := j.workspaces[workspace]; ok {
		return own, nil
	}
	fence, err := j.fences.read(workspace)
	if err != nil {
		return nil, err
	}
	own := &workspaceQueue{fence: fence, turn: make(chan struct{}, 1), known: map[jobKey]*job{}}
	j.workspaces[workspace] = own
	return own, nil
}

// take enters all queues in one order, to avoid a deadlock. Meanwhile tokens may rise, so it checks them again.
func (j *jobs) take(c call) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), verbTime)
	defer cancel()
	if c.unqueued {
		return c.do(ctx)
	}
	wanted := map[string]int64{c.fence.Owner(): c.fence.Fence}
	for workspace, fence := range c.others {
		wanted[workspace] = fence
	}
	names := make([]string, 0, len(wanted))
	for name := range wanted {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		release, err := j.acquire(ctx, name)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	for name, fence := range wanted {
		if j.fenceOf(name) > fence {
			return nil, refuse("fenced", "A newer attempt has taken over this workspace")
		}
	}
	return c.do(ctx)
}

func (j *jobs) acquire(ctx context.Context, workspace string) (func(), error) {
	own, err := j.join(workspace)
	if err != nil {
		return nil, err
	}
	select {
	case own.turn <- struct{}{}:
		return func() { <-own.turn; j.leave(own) }, nil
	case <-ctx.Done():
		j.leave(own)
		return nil, ctx.Err()
	}
}

func (j *jobs) join(workspace string) (*workspaceQueue, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	own, err := j.turnsOf(workspace)
	if err == nil {
		own.users++
	}
	return own, err
}

func (j *jobs) leave(own *workspaceQueue) {
	j.mu.Lock()
	defer j.mu.Unlock()
	own.users--
}

func (j *jobs) fenceOf(workspace string) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	own, err := j.turnsOf(workspace)
	if err != nil {
		return 0
	}
	return own.fence
}

func (j *jobs) drop(own *workspaceQueue, key jobKey) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(own.known, key)
}

// forgetDeleted removes the token files of deleted workspaces once they are older than fenceKept.
func (j *jobs) forgetDeleted(kept map[string]bool, now time.Time) error {
	j.forgetIdle(kept)
	known, err := j.fences.list()
	for _, workspace := range known {
		if !kept[workspace] {
			err = errors.Join(err, j.forgetFence(workspace, now))
		}
	}
	return err
}

func (j *jobs) forgetIdle(kept map[string]bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for workspace, own := range j.workspaces {
		if kept[workspace] || own.users > 0 {
			continue
		}
		if own.forgetDone(); len(own.known) == 0 {
			delete(j.workspaces, workspace)
		}
	}
}

// The lock prevents that a verb raises the token during the removal.
func (j *jobs) forgetFence(workspace string, now time.Time) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, used := j.workspaces[workspace]; used {
		return nil
	}
	return j.fences.forget(workspace, now)
}

func (j *jobs) wait(ctx context.Context) {
	select {
	case <-j.running.Idle():
	case <-ctx.Done():
	}
}

func isDone(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
