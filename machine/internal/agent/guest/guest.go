// Package guest has the adopted tree of a workspace, and starts the workspace's processes.
package guest

import (
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/agent/identity"
	"github.com/berth-dev/berth/machine/internal/agent/procfs"
	"github.com/berth-dev/berth/machine/internal/agent/reap"
	"github.com/berth-dev/berth/machine/internal/agent/spawn"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// The first /proc is unmounted this long after an adoption, when callers no longer wait for the machine.
const procUnmountDelay = time.Second

// Guest waits for an adoption (a spawner is ready), is adopted, or is broken for a moment because its init was
// killed. A new spawner then adopts the tree again.
type Guest struct {
	binary string
	layout spawn.Layout
	reaper *reap.Reaper
	users  guestroot.Users
	tasks  *taskLimit // nil: the sandbox's kernel cannot limit tasks

	mu      sync.Mutex
	stir    func()         // called after each start of a process; may be nil
	next    *spawn.Spawner // launched, but has not adopted a tree yet
	current *adoptedSpawner
	volumes []wire.Volume // mounted in the guest

	// The guard needs its own lock, because an adoption holds mu throughout. Holders of ending never block.
	ending  sync.Mutex
	endable *adoptedSpawner
}

type adoptedSpawner struct {
	spawner *spawn.Spawner
	root    *guestroot.Root
	starts  sync.WaitGroup
	ended   bool // set by EndAll; guarded by Guest.ending
}

// New launches the first spawner before a claim needs it.
func New(binary string, layout spawn.Layout, reaper *reap.Reaper) (*Guest, error) {
	g := &Guest{binary: binary, layout: layout, reaper: reaper}
	tasks, err := newTaskLimit()
	if err != nil {
		log.Printf("the number of tasks is not limited: %v", err)
	}
	g.tasks = tasks
	g.mu.Lock() // calls that need the spawner wait; the agent can answer others
	go func() {
		defer g.mu.Unlock()
		next, err := g.launch()
		if err != nil {
			log.Fatalf("the first spawner: %v", err) // without a spawner the sandbox is useless
		}
		g.next = next
	}()
	return g, nil
}

func (g *Guest) launch() (*spawn.Spawner, error) {
	s, err := spawn.Launch(g.binary, g.layout)
	if err != nil {
		return nil, err
	}
	g.reaper.Forget(s.PID)
	s.OnLate = g.endLate
	if g.tasks != nil {
		err = g.tasks.enter(s.PID)
	}
	return s, errors.Join(err, s.Prepare())
}

func (g *Guest) SetTasks(tasks int) {
	if g.tasks == nil {
		return
	}
	if err := g.tasks.set(tasks); err != nil {
		log.Printf("limiting tasks: %v", err)
	}
}

func (g *Guest) OnStart(stir func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stir = stir
}

// Adopt makes the claimed tree the guest's root. After the first success it does nothing.
func (g *Guest) Adopt() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.current != nil {
		return nil
	}
	names := slices.Clone(wire.InMemory)
	if _, err := os.Stat(g.layout.Volumes); g.layout.Volumes != "" && err == nil {
		names = append(names, "volumes")
	}
	if err := identity.MountPoints(g.layout.ClaimRoot, names); err != nil {
		return err
	}
	if err := identity.Boot(g.layout.State); err != nil {
		return err
	}
	time.AfterFunc(procUnmountDelay, procfs.UnmountInitial)
	return g.adopt()
}

func (g *Guest) adopt() error {
	s := g.next
	g.next = nil
	if s == nil {
		var err error
		if s, err = g.launch(); err != nil {
			return err
		}
	}
	fd, err := s.Adopt()
	for _, pid := range s.Workers {
		g.reaper.Forget(pid)
	}
	if err != nil {
		s.Close()
		return fmt.Errorf("adopting the claim: %w", err)
	}
	g.current = &adoptedSpawner{spawner: s, root: guestroot.New(fd)}
	g.ending.Lock()
	g.endable = g.current
	g.ending.Unlock()
	// New namespaces have no volumes mounted, so the volumes are mounted again.
	g.volumes, _ = g.mountVolumes(g.current, nil, g.volumes)
	return nil
}

// Root returns a reference to the guest's root, which the caller must release.
func (g *Guest) Root() (*guestroot.Root, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.ready(); err != nil {
		return nil, err
	}
	return g.current.root.Acquire(), nil
}

// ErrUnclaimed means that no tree has been adopted.
var ErrUnclaimed = errors.New("guest: not claimed")

func (g *Guest) ready() error {
	if g.current != nil {
		return nil
	}
	if g.next != nil {
		return ErrUnclaimed
	}
	return g.adopt()
}

// User finds a user by name or uid.
func (g *Guest) User(name string) (guestroot.User, bool, error) {
	root, err := g.Root()
	if err != nil {
		return guestroot.User{}, false, err
	}
	defer root.Release()
	user, ok := g.users.Find(root, name)
	return user, ok, nil
}

// Start repairs a guest whose init has died and tries once more, because the kernel refused the first start. With
// c.Meanwhile, descriptors may be closed already, so the caller retries after ErrRefused.
func (g *Guest) Start(c *spawn.Command) (spawn.Started, error) {
	for attempt := 0; ; attempt++ {
		in, err := g.acquire()
		if err != nil {
			return spawn.Started{}, err
		}
		started, err := in.spawner.Start(c)
		in.starts.Done()
		g.stirred()
		if err == nil || !errors.Is(err, spawn.ErrBroken) {
			var failed *spawn.StartError
			if errors.As(err, &failed) && failed.PID != 0 {
				g.reaper.Forget(failed.PID)
			}
			return started, err
		}
		log.Printf("starting a command: %v: the guest's namespaces are made again", err)
		g.retire(in)
		if attempt > 0 || c.Meanwhile != nil || !errors.Is(err, spawn.ErrRefused) {
			return started, err
		}
	}
}

func (g *Guest) stirred() {
	g.mu.Lock()
	stir := g.stir
	g.mu.Unlock()
	if stir != nil {
		stir()
	}
}

func (g *Guest) acquire() (*adoptedSpawner, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.ready(); err != nil {
		return nil, err
	}
	g.current.starts.Add(1)
	return g.current, nil
}

func (g *Guest) endLate(pid int) {
	// If Watch reports no end, the process was not reaped before the pidfd was opened, so the pidfd refers to that
	// process.
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		defer unix.Close(pidfd)
	}
	ended := make(chan struct{})
	g.reaper.Watch(pid, func(unix.WaitStatus) { close(ended) })
	select {
	case <-ended:
		return
	default:
	}
	if err = errors.Join(err, unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)); err != nil {
		log.Printf("ending process %d, whose start was given up: %v", pid, err)
	}
}

func (g *Guest) retire(in *adoptedSpawner) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.current != in {
		return
	}
	g.current = nil
	g.ending.Lock()
	g.endable = nil
	g.ending.Unlock()
	// The pid cannot have been reused, because init's parent, a worker, does not reap.
	_ = unix.Kill(in.spawner.Guest, unix.SIGKILL)
	// The workers are killed before Close, while they are not reaped and their pids cannot be reused.
	for _, pid := range in.spawner.Workers {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	in.spawner.Close()
	in.root.Release()
	go func() {
		in.starts.Wait()
		in.spawner.Release()
	}()
}

// EndAll kills the guest's init, and thereby every process of the guest. EndAll does not block.
func (g *Guest) EndAll(why string) {
	g.ending.Lock()
	in := g.endable
	if in != nil && in.ended {
		in = nil
	}
	if in != nil {
		in.ended = true
		// Init's parent, a worker, lives until endable is cleared, so init's pid is not reused.
		_ = unix.Kill(in.spawner.Guest, unix.SIGKILL)
	}
	g.ending.Unlock()
	if in != nil {
		log.Printf("ending every process of the guest: %s", why)
		go g.retire(in)
	}
}

// Own returns the pids of the agent, the guest's init and the workers, which must never be killed. Own does not
// block.
func (g *Guest) Own() []int {
	own := []int{os.Getpid()}
	g.ending.Lock()
	defer g.ending.Unlock()
	if g.endable != nil {
		own = append(own, g.endable.spawner.Guest)
		own = append(own, g.endable.spawner.Workers...)
	}
	return own
}
