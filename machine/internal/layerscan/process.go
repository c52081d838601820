// Package layerscan scans a future layer for secrets. It parses a guest's data for up to a minute of CPU, so its
// process can only read the directory, without network.
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

// Setup comes once the process is in its cgroup.
type Setup struct {
	Drop       []string `json:"drop"`
	EntriesMax int      `json:"entries_max"`
}

// DirFD is the directory.
const DirFD = 3

const (
	// MemoryBytesMax: a test bounds text, findings and the walk's names to three quarters.
	MemoryBytesMax = 256 << 20
	// A path has fewer directories.
	openFilesMax = 4096
)

// Capabilities are to read files of any owner, and to chroot.
var Capabilities = []uintptr{unix.CAP_DAC_READ_SEARCH, unix.CAP_SYS_CHROOT}

// Run writes one JSON array.
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
	// LayerProcessorTime and LayerTime bound CPU and wall time: busy machines leave less than a CPU.
	LayerProcessorTime = time.Minute
	LayerTime          = 4 * time.Minute
	// A file takes 20 ms, or 6 s if it is full of the rules' words.
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
