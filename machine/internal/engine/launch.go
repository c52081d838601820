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

// A new sandbox answers after 70-105 ms, or after a second when eight start at once on two cores.
const answerTime = 30 * time.Second

// StartWarm starts a warm sandbox on the current build.
func (e *Engine) StartWarm(ctx context.Context, size Size) (*Sandbox, error) {
	return e.launch(ctx, KindWarm, size, e.Current(), network.Wish{}, func(s *Sandbox) error {
		if err := e.create(ctx, s); err != nil {
			return err
		}
		return e.begin(ctx, s)
	})
}

// CreateBlank makes a sandbox for a restore of this build's checkpoint, at the wanted address if that is free.
func (e *Engine) CreateBlank(ctx context.Context, size Size, build Build, wanted network.Wish) (*Sandbox, error) {
	return e.launch(ctx, KindBlank, size, build, wanted, func(s *Sandbox) error { return e.create(ctx, s) })
}

// CreateBlankForPool makes a blank sandbox, and allocates in advance what a restore needs.
func (e *Engine) CreateBlankForPool(ctx context.Context, size Size) (*Sandbox, error) {
	return e.launch(ctx, KindBlank, size, e.Current(), network.Wish{}, func(s *Sandbox) error {
		if err := e.create(ctx, s); err != nil {
			return err
		}
		return e.prepareRestore(ctx, s)
	})
}

// StartBlank makes a blank sandbox warm, which is the shorter half of a start. After an error the sandbox is unusable.
func (e *Engine) StartBlank(ctx context.Context, s *Sandbox) error {
	// A started sandbox cannot restore. If hostd ends here, the next hostd removes it, because it is not ready.
	if err := s.Update(func(r *Record) { r.Kind, r.Ready = KindWarm, false }); err != nil {
		return err
	}
	if err := e.begin(ctx, s); err != nil {
		return err
	}
	return s.Update(func(r *Record) { r.Ready = true })
}

func (e *Engine) create(ctx context.Context, s *Sandbox) error {
	if err := e.runsc(ctx, s, "create", "--bundle", s.Dir, "--pid-file", s.pidFile(), e.containerID(s.Slot)); err != nil {
		return err
	}
	if err := e.track(s); err != nil {
		return err
	}
	return e.giveNetwork(ctx, s)
}

// begin starts the sandbox over its control socket, because `runsc start` would cost a process.
func (e *Engine) begin(ctx context.Context, s *Sandbox) error {
	if err := e.WriteIncarnation(s, wire.Incarnation{Epoch: 0, Protocol: wire.AgentProtocol}); err != nil {
		return err
	}
	if _, err := e.callSandbox(ctx, s, commandTime, "containerManager.StartRoot", e.containerID(s.Slot)); err != nil {
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

// prepare makes directories, cgroup and network of a sandbox. After an error the caller must remove the sandbox.
func (e *Engine) prepare(kind string, size Size, build Build, wanted network.Wish) (*Sandbox, error) {
	slot := newSlotName()
	e.hold(slot)
	s := &Sandbox{Slot: slot, Dir: filepath.Join(e.slotsDir(), slot)}
	s.record = Record{Slot: slot, Kind: kind, Layout: slotLayout, Size: size, Engine: build.Engine, SpecVersion: build.SpecVersion, AgentSHA256: e.agent}
	if err := e.layOut(s); err != nil {
		return s, err
	}
	// The sandbox reads the guest's memory size from this limit. Headroom is added when the sandbox runs.
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

// slotLayout is the version of a slot's directories. hostd removes waiting sandboxes with another layout.
const slotLayout = 4

// The sandbox mounts over these directories, and has no permission to make them.
var slotDirectories = []string{
	"tree/claim/root", "tree/claim/state", "tree/claim/quota", "tree/inc", "tree/volumes", "tree/layers", "tree/proc", "tree/sys", "tree/dev", "tree/tmp",
	"root", "volumes", "layers/upper", "layers/template",
}

// The guest can write to no host file through the root: root, the volumes' base and layers are read-only mounts. A disk
// mounted below has its own permissions.
func (e *Engine) layOut(s *Sandbox) error {
	for _, dir := range slotDirectories {
		if err := os.MkdirAll(filepath.Join(s.Dir, dir), 0o700); err != nil {
			return err
		}
	}
	// The agent's child processes must be able to traverse this root before they change to their own.
	if err := errors.Join(os.Chmod(s.tree(), 0o755), s.Update(func(*Record) {}), e.giveAgent(s, e.agent)); err != nil {
		return err
	}
	if err := bindReadOnly(s.tree(), s.root()); err != nil {
		return err
	}
	if err := mountEmpty(filepath.Join(s.Dir, "volumes"), makeMountSlots); err != nil {
		return err
	}
	return errors.Join(shareSelf(filepath.Join(s.root(), "claim")), shareSelf(filepath.Join(s.Dir, "layers")))
}

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
	return errors.Join(e.setOOMScore(s), s.Update(func(r *Record) { r.Sandbox = process }))
}

// Resize changes the host's limits. The guest's view of its memory remains the same.
func (e *Engine) Resize(s *Sandbox, size Size) error {
	return keepsMemory(e.groups.Get(s.Slot).SetLimits(e.limits(size)))
}

// keepsMemory ignores EBUSY: a machine that uses more memory runs under its old limit until the next LimitMemory.
func keepsMemory(err error) error {
	if errors.Is(err, unix.EBUSY) {
		return nil
	}
	return err
}

// SetHeadroom sets the memory beyond the guest's that later calls of LimitMemory and Resize add.
func (e *Engine) SetHeadroom(bytes int64) { e.headroom.Store(bytes) }

// LimitMemory applies the current headroom. It fails with EBUSY and leaves the old limit if the machine uses more.
func (e *Engine) LimitMemory(s *Sandbox) error {
	return e.groups.Get(s.Slot).SetMemory(e.limits(s.Record().Size).MemoryBytes)
}

func (e *Engine) limits(size Size) cgroup.Limits {
	return cgroup.Limits{CPUMillis: size.CPUMillis, MemoryBytes: size.memoryBytes() + e.headroom.Load(), Pids: pidsMax}
}

// With this weight a save gets half of the machines' CPU share next to twenty busy guests.
const boostPercent = 2000

// Boost removes a stopped guest's CPU limit until Resize: saving and loading memory would be slow under it.
func (e *Engine) Boost(s *Sandbox, size Size) error {
	limits := e.limits(size)
	limits.CPUMillis, limits.WeightPercent = 0, boostPercent
	return keepsMemory(e.groups.Get(s.Slot).SetLimits(limits))
}

func (s *Sandbox) pidFile() string { return filepath.Join(s.Dir, "pid") }

// The name is short, because it is part of an interface's name. It is random, so that a name is not used again.
func newSlotName() string {
	var random [3]byte
	rand.Read(random[:])
	return hex.EncodeToString(random[:])
}
