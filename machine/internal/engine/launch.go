package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/cgroup"
	"github.com/berth-dev/berth/machine/internal/network"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// answerTime bounds the wait for an agent's first answer. A fresh sandbox takes 70-105 ms, eight at once on two cores a second.
const answerTime = 30 * time.Second

// StartSlot starts a sandbox of the current build whose agent waits to be claimed.
func (e *Engine) StartSlot(ctx context.Context, size Size) (*Sandbox, error) {
	return e.launch(ctx, KindSlot, size, e.Current(), network.Wish{}, func(s *Sandbox) error {
		if err := e.create(ctx, s); err != nil {
			return err
		}
		return e.begin(ctx, s)
	})
}

// CreateShell creates a sandbox that a checkpoint of a build can be restored into. Its size is the size of the machine it will be, and
// its address is the wanted one where that is free.
func (e *Engine) CreateShell(ctx context.Context, size Size, build Build, wanted network.Wish) (*Sandbox, error) {
	return e.launch(ctx, KindShell, size, build, wanted, func(s *Sandbox) error { return e.create(ctx, s) })
}

// CreateShellAhead creates one of the current build that nobody waits for yet, and has it take what its restore will need.
func (e *Engine) CreateShellAhead(ctx context.Context, size Size) (*Sandbox, error) {
	return e.launch(ctx, KindShell, size, e.Current(), network.Wish{}, func(s *Sandbox) error {
		if err := e.create(ctx, s); err != nil {
			return err
		}
		return e.takeAhead(ctx, s)
	})
}

// StartShell makes a slot of a shell of the current build: the longer half of a slot's start is done. After a failure it is good for
// nothing.
func (e *Engine) StartShell(ctx context.Context, s *Sandbox) error {
	// On disk before it happens: nothing can be restored into it any more, and what is not ready is thrown away by the next hostd.
	if err := s.Update(func(r *Record) { r.Kind, r.Ready = KindSlot, false }); err != nil {
		return err
	}
	if err := e.begin(ctx, s); err != nil {
		return err
	}
	return s.Update(func(r *Record) { r.Ready = true })
}

// create makes a sandbox that has its network and runs nothing yet.
func (e *Engine) create(ctx context.Context, s *Sandbox) error {
	if err := e.runsc(ctx, s, "create", "--bundle", s.Dir, "--pid-file", s.pidFile(), e.containerID(s.Slot)); err != nil {
		return err
	}
	if err := e.track(s); err != nil {
		return err
	}
	return e.giveNetwork(ctx, s)
}

// begin is `runsc start` without the command's own start, and waits for the agent.
func (e *Engine) begin(ctx context.Context, s *Sandbox) error {
	if err := e.WriteIncarnation(s, wire.Incarnation{Epoch: 0, Protocol: wire.AgentProtocol}); err != nil {
		return err
	}
	if _, err := e.ask(ctx, s, commandTime, "containerManager.StartRoot", e.containerID(s.Slot)); err != nil {
		return fmt.Errorf("%w: %s", err, e.lastWords(s, filepath.Join(s.Dir, "runsc.log")))
	}
	if err := e.noteRunning(s); err != nil {
		return err
	}
	answer, err := e.WaitForAgent(ctx, s, 0)
	if err != nil {
		return err
	}
	return errors.Join(e.noteProtocol(s, answer), e.confined(s))
}

func (e *Engine) launch(ctx context.Context, kind string, size Size, build Build, wanted network.Wish, run func(*Sandbox) error) (*Sandbox, error) {
	s, err := e.prepare(kind, size, build, wanted)
	if err == nil {
		err = run(s)
	}
	if err == nil {
		err = s.Update(func(r *Record) { r.Ready = true })
	}
	if err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
		defer cancel()
		failed := errors.Join(fmt.Errorf("start a %s: %w", kind, err), e.Remove(clean, s))
		e.Abandon(s)
		return nil, failed
	}
	return s, nil
}

// prepare makes everything that a sandbox needs around it. What it returns with an error still has to be removed.
func (e *Engine) prepare(kind string, size Size, build Build, wanted network.Wish) (*Sandbox, error) {
	slot := newSlotName()
	e.hold(slot)
	s := &Sandbox{Slot: slot, Dir: filepath.Join(e.slotsDir(), slot)}
	s.record = Record{Slot: slot, Kind: kind, Layout: slotLayout, Size: size, Engine: build.Engine, SpecVersion: build.SpecVersion, AgentSHA256: e.agent}
	if err := e.layOut(s); err != nil {
		return s, err
	}
	// The sandbox reads the guest's memory from the limit it finds here; headroom is added once it runs.
	group, err := e.groups.Create(slot, cgroup.Limits{CPUMillis: size.CPUMillis, MemoryBytes: size.memoryBytes(), Pids: pidsMax})
	if err != nil {
		return s, err
	}
	net, err := e.router.AttachAt(slot, wanted)
	if err != nil {
		return s, err
	}
	if err := writeSpec(s.Dir, build.SpecVersion, net.NetnsPath, group.OCIPath(), size); err != nil {
		return s, err
	}
	return s, s.Update(func(r *Record) { r.Address, r.Nameserver = net.Address.String(), net.Nameserver.String() })
}

// slotLayout counts the ways in which a slot's directory was laid out. One that waits in another is thrown away.
const slotLayout = 4

// slotDirectories are a slot's own. The sandbox mounts over those of its root, which it cannot make itself.
var slotDirectories = []string{
	"tree/claim/root", "tree/claim/state", "tree/claim/quota", "tree/inc", "tree/volumes", "tree/layers", "tree/proc", "tree/sys", "tree/dev", "tree/tmp",
	"root", "volumes", "layers/upper", "layers/template",
}

// layOut makes a slot's directory and its mounts. No file of the host can be written from inside: the root, the base of the volumes and
// the layers are read-only mounts. A disk is mounted below them later, with rights of its own.
func (e *Engine) layOut(s *Sandbox) error {
	for _, dir := range slotDirectories {
		if err := os.MkdirAll(filepath.Join(s.Dir, dir), 0o700); err != nil {
			return err
		}
	}
	// The guest's processes leave this root before they start, but its own path has to be passable for the agent's children.
	if err := errors.Join(os.Chmod(s.tree(), 0o755), s.Update(func(*Record) {}), e.giveAgent(s, e.agent)); err != nil {
		return err
	}
	if err := bindReadOnly(s.tree(), s.root()); err != nil {
		return err
	}
	if err := mountEmpty(filepath.Join(s.Dir, "volumes"), makePlaces); err != nil {
		return err
	}
	return errors.Join(shareSelf(filepath.Join(s.root(), "claim")), shareSelf(filepath.Join(s.Dir, "layers")))
}

// track finds the sandbox process that a run of runsc left, and watches it.
func (e *Engine) track(s *Sandbox) error {
	text, err := os.ReadFile(s.pidFile())
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	process, err := FindProcess(pid)
	if err != nil {
		return err
	}
	if err := e.isSandboxOf(process, s.Slot); err != nil {
		return err
	}
	if s.done, err = process.watch(); err != nil {
		return err
	}
	return errors.Join(e.offer(s), s.Update(func(r *Record) { r.Sandbox = process }))
}

// Resize sets what a machine may use; the guest's own idea of its memory stays what it was at its start.
func (e *Engine) Resize(s *Sandbox, size Size) error {
	return keepsMemory(e.groups.Get(s.Slot).SetLimits(e.limits(size)))
}

// keepsMemory: a machine that uses more than its limit would be keeps the limit it had, until LimitMemory comes again.
func keepsMemory(err error) error {
	if errors.Is(err, unix.EBUSY) {
		return nil
	}
	return err
}

// SetHeadroom says what a machine may use beyond its told memory from now on: Resize and LimitMemory go by it.
func (e *Engine) SetHeadroom(bytes int64) { e.headroom.Store(bytes) }

// LimitMemory has the present headroom hold for a machine. EBUSY: it uses more, and keeps what it had.
func (e *Engine) LimitMemory(s *Sandbox) error {
	return e.groups.Get(s.Slot).SetMemory(e.limits(s.Record().Size).MemoryBytes)
}

func (e *Engine) limits(size Size) cgroup.Limits {
	return cgroup.Limits{CPUMillis: size.CPUMillis, MemoryBytes: size.memoryBytes() + e.headroom.Load(), Pids: pidsMax}
}

// boostPercent leaves half of the machines' share of the processors to a save beside twenty guests that never rest.
const boostPercent = 2000

// Boost lifts the processor limit while no task of the guest runs: what the sandbox itself does then, saving or loading the guest's
// memory, is work of the service, and a small machine, or one among busy ones, would stand still for long otherwise. Resize sets the
// limit again.
func (e *Engine) Boost(s *Sandbox, size Size) error {
	limits := e.limits(size)
	limits.CPUMillis, limits.WeightPercent = 0, boostPercent
	return keepsMemory(e.groups.Get(s.Slot).SetLimits(limits))
}

func (s *Sandbox) pidFile() string { return filepath.Join(s.Dir, "pid") }

// newSlotName is short, because it becomes part of an interface's name, and random, because a slot is never used twice.
func newSlotName() string {
	var random [3]byte
	rand.Read(random[:])
	return hex.EncodeToString(random[:])
}
