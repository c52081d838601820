// Package guard kills processes before the machine runs out of memory: beyond the cgroup's limit the kernel would kill
// the whole sandbox.
package guard

import (
	"fmt"
	"log"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Thresholds, in thousandths of the configured memory. With a poll each 2 ms, an allocator at full speed is killed
// between killAbove and the limit.
const (
	relaxedBelow = 600
	nearAbove    = 820
	killAbove    = 880
	endAllAbove  = 970

	// Fast growth lowers the thresholds, at most to these values. The engine's numbers are some hundred milliseconds
	// old, and usage may double meanwhile.
	killAboveMin   = 800
	endAllAboveMin = 940

	relaxedEvery = 50 * time.Millisecond
	closeEvery   = 5 * time.Millisecond
	nearEvery    = 2 * time.Millisecond
)

// Unchanged usage lowers the polls from twenty a second, which cost 3 to 8 % of a processor per guest, to four,
// which cost 1 to 2 %. Growth of 2 GB/s is still detected within 512 MiB, for which there is headroom.
const (
	settledInterval = 250 * time.Millisecond
	settledAfter    = 40
	settledChange   = 1 // thousandths of the configured memory
)

// The memory of a killed process is released in steps, on a busy host much later than the next poll. So the next
// kill waits until usage has grown by this many thousandths.
const (
	killAgainGrowth = 20
	endAllGrowth    = 30
)

// tasksSlack covers the agent's own tasks. A guest with more tasks has evaded the kernel's limit, so all its
// processes are killed.
const tasksSlack = 128

// Guest's methods must not wait for the guest or the disk, because memory grows meanwhile.
type Guest interface {
	Own() []int // pids that must not be killed
	EndAll(why string)
}

type Guard struct {
	guest  Guest
	memory atomic.Int64
	tasks  atomic.Int64
	used   atomic.Int64 // at the last poll
	// Usage at the last kill; 0 after usage fell below killAboveMin.
	killedAt atomic.Int64
	victims  chan struct{} // request to kill the largest process
	still    atomic.Int64
	procs    uint16
	onEnd    atomic.Pointer[func(pid int, reason string)]
	stir     int // eventfd that ends the current pause; -1: none, and polls stay frequent
}

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

// SetLimits sets both limits. memoryBytes 0 means the memory that the machine reports; tasks 0 means no limit.
func (g *Guard) SetLimits(memoryBytes int64, tasks int) {
	g.memory.Store(memoryBytes)
	g.tasks.Store(int64(tasks))
}

const (
	OutOfMemory  = "out_of_memory"
	ProcessLimit = "process_limit"
)

// OnEnd sets a function that is called before each kill; pid 0 means the whole guest. The function must not block.
func (g *Guard) OnEnd(told func(pid int, reason string)) { g.onEnd.Store(&told) }

func (g *Guard) tell(pid int, reason string) {
	if told := g.onEnd.Load(); told != nil {
		(*told)(pid, reason)
	}
}

// Wake makes polls frequent after the start of a process.
func (g *Guard) Wake() {
	if g.still.Swap(0) >= settledAfter {
		_, _ = unix.Write(g.stir, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// The loop has its own thread, because with dozens of runnable processes a goroutine switch may take longer than the
// interval.
func (g *Guard) loop() {
	runtime.LockOSThread()
	stirred := []unix.PollFd{{Fd: int32(g.stir), Events: unix.POLLIN}} // poll ignores a negative descriptor
	for {
		pause := unix.NsecToTimespec(g.poll().Nanoseconds())
		if n, _ := unix.Ppoll(stirred, &pause, nil); n > 0 { // an early wake-up is harmless
			_, _ = unix.Read(g.stir, make([]byte, 8))
		}
	}
}

func (g *Guard) poll() time.Duration {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return relaxedEvery
	}
	if info.Procs != g.procs {
		g.procs = info.Procs
		g.still.Store(0)
	}
	every := g.checkMemory(&info)
	if limit := g.tasks.Load(); limit > 0 && int64(info.Procs) > limit+limit/4+tasksSlack {
		g.tell(0, ProcessLimit)
		g.guest.EndAll(fmt.Sprintf("%d tasks where %d are allowed", info.Procs, limit))
	}
	return every
}

func (g *Guard) checkMemory(info *unix.Sysinfo_t) time.Duration {
	unit := max(uint64(info.Unit), 1)
	total := g.memory.Load()
	if total <= 0 {
		total = int64(uint64(info.Totalram) * unit)
	}
	used := int64((uint64(info.Totalram) - uint64(info.Freeram)) * unit)
	if total <= 0 {
		return relaxedEvery
	}
	// Growth lowers the thresholds: a busy host delays polls, and usage may grow as much again before the next poll.
	change := used - g.used.Swap(used)
	growth := max(0, change) * 1000 / total
	share := used * 1000 / total
	if share < killAboveMin {
		g.killedAt.Store(0)
	}
	switch {
	case share < relaxedBelow:
		return g.relaxed(max(change, -change)*1000/total >= settledChange)
	case share < nearAbove && growth == 0:
		return closeEvery
	case share < max(killAboveMin, killAbove-growth):
		return nearEvery
	default:
		g.handlePressure(used, total, max(endAllAboveMin, endAllAbove-growth))
		return nearEvery
	}
}

func (g *Guard) relaxed(changed bool) time.Duration {
	if changed {
		g.still.Store(0)
	} else if g.still.Add(1) >= settledAfter && g.stir >= 0 {
		return settledInterval
	}
	return relaxedEvery
}

// handlePressure must not read a process's size: page faults hold the lock that this needs, for seconds at worst.
// File pages are not counted, because they are in the host's page cache.
func (g *Guard) handlePressure(used, total, endAll int64) {
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
		default: // the last request is still being served
		}
	}
}

func (g *Guard) endLargest() {
	for range g.victims {
		if pid, bytes := largest(g.guest.Own()); pid > 0 {
			used := g.used.Load() // memory grew during the search
			g.killedAt.Store(used)
			g.tell(pid, OutOfMemory)
			_ = unix.Kill(pid, unix.SIGKILL)
			log.Printf("memory: %d bytes in use: ended process %d with %d bytes", used, pid, bytes)
		}
	}
}
