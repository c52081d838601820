// Package guard ends processes before the machine runs out of memory: past the cgroup's limit the kernel would kill the
// whole sandbox, with everything in it.
package guard

import (
	"fmt"
	"log"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Thresholds in thousandths of the told memory, and how often to look there. The told memory is the size that the agent was given for its
// guest. One runaway allocator at full speed is caught between 880 and the limit with 2 ms; below 600 a fast poll would only cost CPU.
const (
	relaxedBelow = 600
	nearAbove    = 820
	killAbove    = 880
	endAllAbove  = 970

	// These hold when memory grows so fast that the next look may come too late. What the engine says of its memory is up to some
	// hundred milliseconds old, so what many processes allocate at once may be twice that already.
	killAboveMin   = 800
	endAllAboveMin = 940

	relaxedEvery = 50 * time.Millisecond
	closeEvery   = 5 * time.Millisecond
	nearEvery    = 2 * time.Millisecond
)

// A guest in which nothing was started and memory stood still for stillAfter looks is looked at less often: twenty looks a second
// are 3 to 8 % of a processor, four are 1 to 2, in every guest of the computer. What then begins to grow at 2 GB/s is seen at the
// latest when it has taken 512 MiB, for which there is headroom.
const (
	stillEvery  = 250 * time.Millisecond
	stillAfter  = 40
	stillChange = 1 // thousandths of the told memory
)

// After a kill the memory comes back in steps, on a busy computer much later than the next look. What does not grow does no
// harm, so the next kill waits for growth: by these thousandths of the told memory.
const (
	killAgainGrowth = 20
	endAllGrowth    = 30
)

// tasksSlack is what the agent itself has in tasks, and more: above the limit and this, the limit in the kernel has been
// got round, and everything of the guest is ended.
const tasksSlack = 128

// Guest is what the guard may do. Neither may wait for anything that the guest or the disk holds up: memory grows meanwhile.
type Guest interface {
	Own() []int // processes that are not the guest's
	EndAll(why string)
}

// Guard polls one machine.
type Guard struct {
	guest  Guest
	memory atomic.Int64
	tasks  atomic.Int64
	used   atomic.Int64 // at the last look
	// killedAt is what was in use when a process was last ended; 0 once it fell below killAboveMin.
	killedAt atomic.Int64
	victims  chan struct{} // one request to end the largest
	// Relaxed looks in turn at which nothing had changed, and the tasks at the last one.
	still atomic.Int64
	procs uint16
	onEnd atomic.Pointer[func(pid int, reason string)]
	stir  int // an event that ends the wait for the next look; -1: there is none, looks stay frequent
}

// Start polls for the life of the agent.
func Start(guest Guest, memoryBytes int64, tasks int) *Guard {
	g := &Guard{guest: guest, victims: make(chan struct{}), stir: -1}
	if event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err == nil {
		g.stir = event
	}
	g.SetLimits(memoryBytes, tasks)
	go g.loop()
	go g.endLargest()
	return g
}

// SetLimits takes the told size of memory (0: what the machine shows) and the number of tasks (0: not limited).
func (g *Guard) SetLimits(memoryBytes int64, tasks int) {
	g.memory.Store(memoryBytes)
	g.tasks.Store(int64(tasks))
}

// Why the guard ends processes.
const (
	OutOfMemory  = "out_of_memory"
	ProcessLimit = "process_limit"
)

// OnEnd is told of each process before it is ended, and why; pid 0 stands for all of the guest's. It may not wait for anything.
func (g *Guard) OnEnd(told func(pid int, reason string)) { g.onEnd.Store(&told) }

func (g *Guard) tell(pid int, reason string) {
	if told := g.onEnd.Load(); told != nil {
		(*told)(pid, reason)
	}
}

// Stir says that something was started: the looks are frequent again, from now on.
func (g *Guard) Stir() {
	if g.still.Swap(0) >= stillAfter {
		_, _ = unix.Write(g.stir, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// loop owns a thread that sleeps in the kernel: with dozens of runnable processes each hand-over between threads may cost
// more than the whole interval.
func (g *Guard) loop() {
	runtime.LockOSThread()
	stirred := []unix.PollFd{{Fd: int32(g.stir), Events: unix.POLLIN}} // a negative one is passed over
	for {
		pause := unix.NsecToTimespec(g.look().Nanoseconds())
		if n, _ := unix.Ppoll(stirred, &pause, nil); n > 0 { // woken early is as good
			_, _ = unix.Read(g.stir, make([]byte, 8))
		}
	}
}

// look acts once and says when to look again.
func (g *Guard) look() time.Duration {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return relaxedEvery
	}
	if info.Procs != g.procs {
		g.procs = info.Procs
		g.still.Store(0)
	}
	every := g.lookAtMemory(&info)
	if limit := g.tasks.Load(); limit > 0 && int64(info.Procs) > limit+limit/4+tasksSlack {
		g.tell(0, ProcessLimit)
		g.guest.EndAll(fmt.Sprintf("%d tasks where %d are allowed", info.Procs, limit))
	}
	return every
}

func (g *Guard) lookAtMemory(info *unix.Sysinfo_t) time.Duration {
	unit := max(uint64(info.Unit), 1)
	total := g.memory.Load()
	if total <= 0 {
		total = int64(uint64(info.Totalram) * unit)
	}
	used := int64((uint64(info.Totalram) - uint64(info.Freeram)) * unit)
	if total <= 0 {
		return relaxedEvery
	}
	// A busy computer delays the looks: what grew since the last one may grow again before the next, so act earlier by it.
	change := used - g.used.Swap(used)
	growth := max(0, change) * 1000 / total
	share := used * 1000 / total
	if share < killAboveMin {
		g.killedAt.Store(0)
	}
	switch {
	case share < relaxedBelow:
		return g.relaxed(max(change, -change)*1000/total >= stillChange)
	case share < nearAbove && growth == 0:
		return closeEvery
	case share < max(killAboveMin, killAbove-growth):
		return nearEvery
	default:
		g.full(used, total, max(endAllAboveMin, endAllAbove-growth))
		return nearEvery
	}
}

// relaxed is how long the next look may wait where there is plenty.
func (g *Guard) relaxed(changed bool) time.Duration {
	if changed {
		g.still.Store(0)
	} else if g.still.Add(1) >= stillAfter && g.stir >= 0 {
		return stillEvery
	}
	return relaxedEvery
}

// full asks for the end of the largest process, or ends everything when that has not been enough. It may not wait for
// anything: to learn the size of a process takes a lock that its page faults hold, for seconds at the worst. Files that
// are read and written do not count here: they are the host's page cache, not the machine's memory.
func (g *Guard) full(used, total, endAll int64) {
	killedAt := g.killedAt.Load()
	grown := (used - killedAt) * 1000 / total
	if used*1000/total >= endAll && (killedAt == 0 || grown > endAllGrowth) {
		g.killedAt.Store(used)
		g.tell(0, OutOfMemory)
		g.guest.EndAll(fmt.Sprintf("%d of %d bytes of memory are in use", used, total))
		return
	}
	if killedAt == 0 || grown > killAgainGrowth {
		select {
		case g.victims <- struct{}{}:
		default: // still looking for the last one
		}
	}
}

func (g *Guard) endLargest() {
	for range g.victims {
		if pid, bytes := largest(g.guest.Own()); pid > 0 {
			used := g.used.Load() // it grew while the largest was looked for
			g.killedAt.Store(used)
			g.tell(pid, OutOfMemory)
			_ = unix.Kill(pid, unix.SIGKILL)
			log.Printf("memory: %d bytes in use: ended process %d with %d bytes", used, pid, bytes)
		}
	}
}
