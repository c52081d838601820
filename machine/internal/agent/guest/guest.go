// Package guest is the adopted claim: its root as the guest sees it, its accounts, and how processes are started in it.
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

// letGoAfter is when nobody waits for the adopted machine any more, and what is rehearsed has been.
const letGoAfter = time.Second

// Guest has a lifetime: waiting (a spawner process is there), adopted, and for moments broken, when the guest killed its
// own init: then every process of it is dead, and a new spawner adopts the same tree again.
type Guest struct {
	binary string
	layout spawn.Layout
	reaper *reap.Reaper
	users  guestroot.Users
	tasks  *taskLimit // nil: the sandbox's kernel cannot limit them

	mu      sync.Mutex
	stir    func()         // nil: nobody is told of starts
	next    *spawn.Spawner // launched, has not adopted
	current *incumbent
	volumes []wire.Volume // that are mounted in the guest

	// The guard may not wait for mu, which a whole adoption holds. endable is current, from its adoption until its processes were killed;
	// what holds this lock waits for nothing.
	ending  sync.Mutex
	endable *incumbent
}

// incumbent is one spawner with the guest's root that it entered.
type incumbent struct {
	spawner *spawn.Spawner
	root    *guestroot.Root
	starts  sync.WaitGroup
	ended   bool // by EndAll; guarded by ending
}

// New launches the first spawner, so that a claim does not wait for a process.
func New(binary string, layout spawn.Layout, reaper *reap.Reaper) (*Guest, error) {
	g := &Guest{binary: binary, layout: layout, reaper: reaper}
	tasks, err := newTaskLimit()
	if err != nil {
		log.Printf("the number of tasks is not limited: %v", err)
	}
	g.tasks = tasks
	g.mu.Lock() // whoever needs the spawner waits for it; the agent may answer meanwhile
	go func() {
		defer g.mu.Unlock()
		next, err := g.launch()
		if err != nil {
			log.Fatalf("the first spawner: %v", err) // a slot without one is none
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

// SetTasks bounds how many tasks the guest may have.
func (g *Guest) SetTasks(tasks int) {
	if g.tasks == nil {
		return
	}
	if err := g.tasks.set(tasks); err != nil {
		log.Printf("limiting tasks: %v", err)
	}
}

// OnStart names who is told, after each start of a process in the guest.
func (g *Guest) OnStart(stir func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stir = stir
}

// Adopt takes the claim.
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
	time.AfterFunc(letGoAfter, procfs.LetGo)
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
	g.current = &incumbent{spawner: s, root: guestroot.New(fd)}
	g.ending.Lock()
	g.endable = g.current
	g.ending.Unlock()
	// After a break: namespaces that were made anew have none.
	g.volumes, _ = g.mountVolumes(g.current, nil, g.volumes)
	return nil
}

// Root is the guest's root, to be released by the caller.
func (g *Guest) Root() (*guestroot.Root, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.ready(); err != nil {
		return nil, err
	}
	return g.current.root.Acquire(), nil
}

// ErrUnclaimed: nothing of the guest exists yet.
var ErrUnclaimed = errors.New("guest: not claimed")

// ready adopts again after a break.
func (g *Guest) ready() error {
	if g.current != nil {
		return nil
	}
	if g.next != nil {
		return ErrUnclaimed
	}
	return g.adopt()
}

// User finds an account of the guest.
func (g *Guest) User(name string) (guestroot.User, bool, error) {
	root, err := g.Root()
	if err != nil {
		return guestroot.User{}, false, err
	}
	defer root.Release()
	user, ok := g.users.Find(root, name)
	return user, ok, nil
}

// Start runs a command in the guest. A guest whose init died is repaired, and the start tried once more: the kernel had
// refused it, so nothing can run twice. Where a command's descriptors may be gone by then, trying again after ErrRefused is the caller's.
func (g *Guest) Start(c *spawn.Command) (spawn.Started, error) {
	for attempt := 0; ; attempt++ {
		in, err := g.hold()
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
		log.Printf("starting a command: %v: the guest's namespaces are made anew", err)
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

func (g *Guest) hold() (*incumbent, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.ready(); err != nil {
		return nil, err
	}
	g.current.starts.Add(1)
	return g.current, nil
}

// endLate ends a process whose start was given up before it began.
func (g *Guest) endLate(pid int) {
	// Taken before the reaper is asked: if it has not waited for the process by then, this is the process.
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

// retire ends an incumbent and whatever still runs in its namespaces; the next caller adopts anew.
func (g *Guest) retire(in *incumbent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.current != in {
		return
	}
	g.current = nil
	g.ending.Lock()
	g.endable = nil
	g.ending.Unlock()
	// Init is a worker's child, and no worker waits for any: its pid is not used again.
	_ = unix.Kill(in.spawner.Guest, unix.SIGKILL)
	// Before they are told to end: as long as nobody has waited for them, their pids are theirs.
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

// EndAll kills every process of the guest at once, by way of its init. It waits for nothing.
func (g *Guest) EndAll(why string) {
	g.ending.Lock()
	in := g.endable
	if in != nil && in.ended {
		in = nil
	}
	if in != nil {
		in.ended = true
		_ = unix.Kill(in.spawner.Guest, unix.SIGKILL) // still its pid: retire has not begun to kill the workers, who have it as a child
	}
	g.ending.Unlock()
	if in != nil {
		log.Printf("ending every process of the guest: %s", why)
		go g.retire(in)
	}
}

// Own lists the agent's processes beside the guest's: they are never to be killed. It waits for nothing.
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
