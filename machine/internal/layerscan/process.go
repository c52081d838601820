// Package layerscan looks for secrets in what is to become a layer. It reads what a guest wrote, for as long as a minute, so it is a process of its
// own: it has a user without rights but that of reading, no network, the directory as its only file system, and limits that hostd gives it.
package layerscan

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/jail"
	"github.com/berth-dev/berth/machine/internal/layers"
)

// Command is the argument that makes hostd's program this process.
const Command = "scan-layer"

// Setup is the line that it reads before it does anything: nothing of it runs outside of its group.
type Setup struct {
	Drop       []string `json:"drop"`
	EntriesMax int      `json:"entries_max"`
}

// DirFD is the directory; the process inherits it.
const DirFD = 3

const (
	// MemoryBytesMax is what the process may use. Its text, its findings and the names that a walk holds are a quarter of it: see the test.
	MemoryBytesMax = 256 << 20
	// openFilesMax is more than a path has directories.
	openFilesMax = 4096
)

// Capabilities are all that hostd leaves it: to read files of any owner, and to make the directory its root.
var Capabilities = []uintptr{unix.CAP_DAC_READ_SEARCH, unix.CAP_SYS_CHROOT}

// Run writes the findings as one JSON array.
func Run() error {
	debug.SetMemoryLimit(MemoryBytesMax / 2)
	line, err := bufio.NewReader(os.Stdin).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the setup: %w", err)
	}
	var setup Setup
	if err := json.Unmarshal(line, &setup); err != nil {
		return fmt.Errorf("read the setup: %w", err)
	}
	dropped, err := layers.ParseDropped(setup.Drop)
	if err != nil {
		return err
	}
	if err := errors.Join(unix.Fchdir(DirFD), unix.Chroot("."), jail.OnlyNetwork(openFilesMax)); err != nil {
		return fmt.Errorf("giving up rights: %w", err)
	}
	s := &scan{root: os.NewFile(DirFD, "layer"), entriesMax: setup.EntriesMax, budget: newBudget(processorTime, time.Now)}
	return json.NewEncoder(os.Stdout).Encode(s.all(dropped))
}

// processorTime is what this process has had of the processors.
func processorTime() time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &at); err != nil {
		return 0 // the other clock bounds it then
	}
	return time.Duration(syscall.TimespecToNsec(syscall.Timespec(at)))
}

// budget is the time that is given to a layer, and to a file of it.
type budget struct {
	used  func() time.Duration // of the processors
	now   func() time.Time
	began time.Time
	file  time.Duration // when the file was begun
}

const (
	// LayerProcessorTime and LayerTime are given to a layer. The kernel gives the process less than a whole processor where machines want it.
	LayerProcessorTime = time.Minute
	LayerTime          = 4 * time.Minute
	// A file of the bytes that are read takes 20 ms. One that has words of rules everywhere would take 6 s.
	fileProcessorTime = time.Second
)

func newBudget(used func() time.Duration, now func() time.Time) *budget {
	return &budget{used: used, now: now, began: now()}
}

func (b *budget) over() bool {
	return b.used() >= LayerProcessorTime || b.now().Sub(b.began) >= LayerTime
}

func (b *budget) beginFile() { b.file = b.used() }

func (b *budget) fileOver() bool { return b.used()-b.file >= fileProcessorTime || b.over() }
