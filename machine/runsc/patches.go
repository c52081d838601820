package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A patch mends one place of the pinned gVisor. The old text must be there exactly once: a gVisor that has changed there fails the
// build, so that whoever moves the pin looks whether the patch is still needed.
type patch struct {
	file, old, new string
}

var patches = slices.Concat(runningPatches, hiddenPatches, imagePatches, objectPatches, waitingPatches, diskPatches, volumePatches)

// The platforms' rules allow some signals to the own process only, and would hold the id of the process that compiles them. A sandbox is
// process 1 of its namespace. This also makes two builds alike.
var filterPatches = []patch{
	{file: systrapFilters, old: "seccomp.EqualTo(os.Getpid())", new: "seccomp.EqualTo(1)"},
	{file: systrapFilters, old: "\t\"os\"\n", new: ""},
	{file: ptraceFilters, old: "seccomp.EqualTo(os.Getpid())", new: "seccomp.EqualTo(1)"},
	{file: ptraceFilters, old: "\t\"os\"\n", new: ""},
}

// What every sandbox is while it runs.
var runningPatches = []patch{
	{
		// The cgroup freezer interrupts the notification of a stub whose semaphore has counted it already: the ioctl then says
		// ENOENT, and systrap takes that for the stub's death. Without this a guest that is frozen twice loses processes.
		file: "gvisor.dev/gvisor/pkg/sentry/platform/systrap/syscall_thread_unsafe.go",
		old:  "if errno == unix.EINTR && t.subproc.alive() {",
		new:  "if (errno == unix.EINTR || errno == unix.ENOENT) && t.subproc.alive() {",
	},
	{
		// A processor that can be told to fault at CPUID is, so that the sentry answers with what the host has: the same. A program that
		// is linked dynamically asks some 65 times before its first line, and each was a signal, a word to the sentry and one back: a third
		// of its start. Every switch between a guest's thread and another was a write to the processor's register besides. Processors
		// that cannot fault (AMD's, for long) never did; what a checkpoint needs of the processor hostd compares itself.
		file: "gvisor.dev/gvisor/pkg/sentry/platform/systrap/subprocess_linux.go",
		old:  "\t// Enable cpuid-faulting.\n\tenableCpuidFault()\n",
		new:  "",
	},
	{
		// A place that makes a system call is rewritten to make the next ones without a signal. That takes longer than ten signals, its
		// page becomes the process's own, and a short program calls from most places once or twice.
		file: usertrap,
		old:  "\ttableAddr hostarch.Addr\n}\n",
		new: `	tableAddr hostarch.Addr

	// calls counts those of each place that was not rewritten. +checklocks:mu
	calls map[uintptr]uint8 ` + "`state:\"nosave\"`" + `
}

const (
	callsBeforePatch = 16
	callPlacesMax    = 1024
)

// isWorthwhileLocked says whether a place has called often enough.
func (s *State) isWorthwhileLocked(place uintptr) bool {
	if s.calls == nil || len(s.calls) >= callPlacesMax {
		s.calls = make(map[uintptr]uint8)
	}
	s.calls[place]++
	if s.calls[place] < callsBeforePatch {
		return false
	}
	delete(s.calls, place)
	return true
}
`,
	},
	{
		file: usertrap,
		old:  "\tsysno := ac.SyscallNo()\n\tpatchAddr := ac.IP() - uintptr(len(jmpInst))\n",
		new: `	if !s.isWorthwhileLocked(ac.IP()) {
		return nil
	}
	sysno := ac.SyscallNo()
	patchAddr := ac.IP() - uintptr(len(jmpInst))
`,
	},
	{
		// Who waits for a packet or for a call of hostd's keeps a processor of the Go runtime, of which there are two, until its monitor
		// looks: up to 10 ms after a restore has kept it busy, both in vain. A wait that is known to be one gives it away at once.
		file: "gvisor.dev/gvisor/pkg/rawfile/rawfile_unsafe.go",
		old:  "\t_, _, errno := unix.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&pevents[0])), uintptr(len(pevents)), 0, 0, 0, 0)\n",
		new:  "\t_, errno := BlockingPoll(&pevents[0], len(pevents), nil)\n",
	},
	{
		file: "gvisor.dev/gvisor/pkg/unet/unet_unsafe.go",
		old:  "\t\t_, _, e := unix.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&events[0])), 2, 0, 0, 0, 0)\n",
		new:  "\t\t_, e := rawfile.BlockingPoll((*rawfile.PollEvent)(unsafe.Pointer(&events[0])), len(events), nil)\n",
	},
	{
		file: "gvisor.dev/gvisor/pkg/unet/unet_unsafe.go",
		old:  "\t\"golang.org/x/sys/unix\"\n",
		new:  "\t\"golang.org/x/sys/unix\"\n\t\"gvisor.dev/gvisor/pkg/rawfile\"\n",
	},
	{
		// How much memory a guest is told that it has is fixed when its sandbox starts. Those that wait ahead of need learn it when they
		// are claimed, so that one serves a machine of any size.
		file: loader,
		old:  "// New initializes a new kernel loader configured by spec.\n",
		new: `// SetTotalMemory changes what the guest is told of its memory.
func (cm *containerManager) SetTotalMemory(bytes *uint64, _ *struct{}) error {
	usage.MinimumTotalMemoryBytes, usage.MaximumTotalMemoryBytes = *bytes, *bytes
	return nil
}

// New initializes a new kernel loader configured by spec.
`,
	},
	{
		// 512 KiB of allocations between two samples of a profile that nobody takes: a table of 1.4 MiB, at random places of which a load
		// meets fresh pages.
		file: "gvisor.dev/gvisor/runsc/main.go",
		old:  "func main() {\n",
		new:  "func main() {\n\truntime.MemProfileRate = 0\n",
	},
	{
		file: "gvisor.dev/gvisor/runsc/main.go",
		old:  "import (\n",
		new:  "import (\n\t\"runtime\"\n\n",
	},
}

const (
	systrapFilters = "gvisor.dev/gvisor/pkg/sentry/platform/systrap/filters.go"
	ptraceFilters  = "gvisor.dev/gvisor/pkg/sentry/platform/ptrace/filters.go"
	saveRestore    = "gvisor.dev/gvisor/pkg/sentry/pgalloc/save_restore.go"
	stateStats     = "gvisor.dev/gvisor/pkg/state/stats.go"
	stateDecode    = "gvisor.dev/gvisor/pkg/state/decode.go"
	stateEncode    = "gvisor.dev/gvisor/pkg/state/encode.go"
	stateState     = "gvisor.dev/gvisor/pkg/state/state.go"
	loader         = "gvisor.dev/gvisor/runsc/boot/loader.go"
	stateTypes     = "gvisor.dev/gvisor/pkg/state/types.go"
	controller     = "gvisor.dev/gvisor/runsc/boot/controller.go"
	usertrap       = "gvisor.dev/gvisor/pkg/sentry/platform/systrap/usertrap/usertrap_amd64.go"
)

func (p patch) applyTo(vendor string) error {
	path := filepath.Join(vendor, p.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := strings.Count(string(source), p.old); n != 1 {
		return fmt.Errorf("%s: expected %q once, found it %d times", p.file, p.old, n)
	}
	return os.WriteFile(path, []byte(strings.Replace(string(source), p.old, p.new, 1)), 0o644)
}
