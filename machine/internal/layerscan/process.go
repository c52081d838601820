// Package layerscan scans a future layer for secrets. It parses a guest's data for up to a minute of CPU time. So it
// runs as a process that can only read the directory, without network.
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

// Command is the argument with which hostd's binary runs this process.
const Command = "scan-layer"

// Setup is the first line of the input. hostd sends it when the process is in its cgroup, so no data is parsed before.
type Setup struct {
	Drop       []string `json:"drop"`
	EntriesMax int      `json:"entries_max"`
}

// DirFD is the descriptor of the directory to scan.
const DirFD = 3

const (
	// MemoryBytesMax is the cgroup's limit. A test checks that text, findings and the walk's names need at most three
	// quarters of it.
	MemoryBytesMax = 256 << 20
	// The walk has one open file per directory of a path, and no path has so many.
	openFilesMax = 4096
)

// Capabilities permit the process to read files of any owner, and to chroot.
var Capabilities = []uintptr{unix.CAP_DAC_READ_SEARCH, unix.CAP_SYS_CHROOT}

// Run reads Setup, scans the directory and writes the findings as one JSON array.
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
		return 0 // no CPU time is counted; the wall clock still bounds the scan
	}
	return time.Duration(syscall.TimespecToNsec(syscall.Timespec(at)))
}

type budget struct {
	used  func() time.Duration // CPU time
	now   func() time.Time
	began time.Time
	file  time.Duration // used() when the scan of the file began
}

const (
	// LayerProcessorTime bounds CPU time, and LayerTime wall time: on a busy computer the process gets less than one
	// CPU.
	LayerProcessorTime = time.Minute
	LayerTime          = 4 * time.Minute
	// A file usually takes 20 ms, or 6 s if it is full of the rules' words.
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
