// Package layerscan scans a future layer for secrets. It parses a guest's data for up to a minute of CPU, so it is a
// separate process. It may only read, has no network, and its only file system is the directory. hostd limits its
// resources.
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

// Command makes hostd's binary this process.
const Command = "scan-layer"

// The process does nothing before it reads Setup, and then is in its cgroup.
type Setup struct {
	Drop       []string `json:"drop"`
	EntriesMax int      `json:"entries_max"`
}

// DirFD is the inherited directory.
const DirFD = 3

const (
	// MemoryBytesMax is the process's limit. A test bounds text, findings and the walk's names to three quarters.
	MemoryBytesMax = 256 << 20
	// More than the directories in a path.
	openFilesMax = 4096
)

// Capabilities are to read files of any owner, and to chroot into the directory.
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

func processorTime() time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &at); err != nil {
		return 0 // the wall clock still bounds it
	}
	return time.Duration(syscall.TimespecToNsec(syscall.Timespec(at)))
}

type budget struct {
	used  func() time.Duration // CPU time
	now   func() time.Time
	began time.Time
	file  time.Duration // used() at the start of the file
}

const (
	// LayerProcessorTime and LayerTime bound a scan's CPU and wall time. Busy machines leave less than a whole CPU.
	LayerProcessorTime = time.Minute
	LayerTime          = 4 * time.Minute
	// A file normally takes 20 ms, one full of the rules' words 6 s.
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
