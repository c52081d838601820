package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A patch mends one place of the pinned gVisor. The old text must be there exactly once: a gVisor that has changed there fails the
// build, so that whoever moves the pin looks whether the patch is still needed.
type patch struct {
	file, old, new string
}

var patches = []patch{
	{
		// The cgroup freezer interrupts the notification of a stub whose semaphore has counted it already: the ioctl then says
		// ENOENT, and systrap takes that for the stub's death. Without this a guest that is frozen twice loses processes.
		file: "gvisor.dev/gvisor/pkg/sentry/platform/systrap/syscall_thread_unsafe.go",
		old:  "if errno == unix.EINTR && t.subproc.alive() {",
		new:  "if (errno == unix.EINTR || errno == unix.ENOENT) && t.subproc.alive() {",
	},
	{
		// A save looks for what is zero by reading every page that the guest may have written. Reading one that nobody ever wrote
		// makes the kernel allocate and clear it, and gVisor give it back: half of the save of a small guest, all of it with the
		// guest at a stand. The host knows which pages of the memory file exist: one in a hole has no byte but zero. A page that
		// was swapped out counts as existing (mincore would deny it), a question the host cannot answer too, and what exists is
		// compared as ever. Offsets only grow, and the guest stands still, so one extent is remembered.
		file: saveRestore,
		old:  "\tzeroPage := make([]byte, hostarch.PageSize)\n\t// f.mu is unlocked below",
		new: `	zeroPage := make([]byte, hostarch.PageSize)
	var dataStart, dataEnd uint64
	isHole := func(off uint64) bool {
		if off >= dataEnd {
			start, err := unix.Seek(int(f.file.Fd()), int64(off), unix.SEEK_DATA)
			if err == unix.ENXIO {
				dataStart, dataEnd = math.MaxUint64, math.MaxUint64
				return true
			}
			if err != nil {
				return false
			}
			end, err := unix.Seek(int(f.file.Fd()), start, unix.SEEK_HOLE)
			if err != nil {
				return false
			}
			dataStart, dataEnd = uint64(start), uint64(end)
		}
		return off < dataStart
	}
	// f.mu is unlocked below`,
	},
	{
		file: saveRestore,
		old:  "isZeroed := bytes.Equal(pg, zeroPage)",
		new:  "inHole := isHole(off)\n\t\t\t\tisZeroed := inHole || bytes.Equal(pg, zeroPage)",
	},
	{
		// What was not read was not allocated, so there is nothing to give back.
		file: saveRestore,
		old:  "\t\t\t\t\t\tdecommitAddPage(off)\n",
		new:  "\t\t\t\t\t\tif !inHole {\n\t\t\t\t\t\t\tdecommitAddPage(off)\n\t\t\t\t\t\t}\n",
	},
	{
		// 128 workers for a small guest's 6 MiB of pages: the threads, and the Go runtime's stop for as many processors more, took 17 ms
		// of a restore's 40 on two processors, beside which nothing else got to run. Four read as fast from the page cache, and keep a
		// disk as busy as its readahead does.
		file: "gvisor.dev/gvisor/pkg/sentry/state/stateio/pagesfile.go",
		old:  "return NewPagesFileFDReader(fd, pagesFileFDDefaultMaxIOBytes, pagesFileFDDefaultMaxParallel)",
		new:  "return NewPagesFileFDReader(fd, pagesFileFDDefaultMaxIOBytes, 4)",
	},
	{
		// Two looks at the clock for each of some 20,000 objects, for a table that is made and thrown away where nobody logs it.
		file: stateStats,
		old:  "\tlast := s.stack[len(s.stack)-1]\n\ts.sample(last)\n\ts.stack = append(s.stack, id)\n",
	},
	{
		file: stateStats,
		old:  "\tlast := s.stack[len(s.stack)-1]\n\ts.sample(last)\n\ts.byType[last].count++\n\ts.stack = s.stack[:len(s.stack)-1]\n",
	},
	{
		file: stateStats,
		old:  "\ts.names = make([]string, len(s.byType))\n\ts.names[0]",
		new:  "\tif len(s.byType) == 0 {\n\t\treturn\n\t}\n\ts.names = make([]string, len(s.byType))\n\ts.names[0]",
	},
	{
		file: stateStats,
		old:  "func (s *Stats) String() string {\n",
		new:  "func (s *Stats) String() string {\n\tif len(s.byType) == 0 {\n\t\treturn \"not taken\"\n\t}\n",
	},
	{
		// A save and a load allocate several times the heap of an idle sandbox, so that the collector runs again and again while the
		// guest stands still: a third of a small guest's save. It may wait for spareHeap more; its first run ends the patience.
		file: controller,
		old:  "func (cm *containerManager) Checkpoint(o *control.SaveOpts, _ *struct{}) error {\n",
		new: `const spareHeap = 64 << 20

func patientCollector() (end func()) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	percent := 100 + int(spareHeap*100/max(live[0].Value.Uint64(), 1<<20))
	before := godebug.SetGCPercent(percent)
	first := new([16]byte)
	runtime.SetFinalizer(first, func(*[16]byte) { godebug.SetGCPercent(before) })
	return func() { godebug.SetGCPercent(before) }
}

func (cm *containerManager) Checkpoint(o *control.SaveOpts, _ *struct{}) error {
	defer patientCollector()()
`,
	},
	{
		file: controller,
		old:  "\ttimer := starttime.Timer(\"Restore\")\n\ttimer.Reached(\"cm.Restore RPC\")\n",
		new:  "\tdefer patientCollector()()\n\ttimer := starttime.Timer(\"Restore\")\n\ttimer.Reached(\"cm.Restore RPC\")\n",
	},
	{
		file: controller,
		old:  "\t\"path\"\n",
		new:  "\t\"path\"\n\t\"runtime\"\n\tgodebug \"runtime/debug\"\n\t\"runtime/metrics\"\n",
	},
	{
		// How much memory a guest is told that it has is fixed when its sandbox starts. Those that wait ahead of need learn it when they
		// are claimed, so that one serves a machine of any size.
		file: "gvisor.dev/gvisor/runsc/boot/loader.go",
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
		// Every endpoint that a save finds is on this list until the saved guest goes on. In the image it stayed there for good: each
		// suspend added the connections of its time to every later image of the workspace.
		file: "gvisor.dev/gvisor/pkg/tcpip/stack/stack.go",
		old:  "\teps := s.restoredEndpoints\n\ts.restoredEndpoints = nil\n",
		new:  "\teps := s.restoredEndpoints\n\ts.restoredEndpoints = nil\n\ts.resumableEndpoints = nil\n",
	},
}

const (
	saveRestore = "gvisor.dev/gvisor/pkg/sentry/pgalloc/save_restore.go"
	stateStats  = "gvisor.dev/gvisor/pkg/state/stats.go"
	controller  = "gvisor.dev/gvisor/runsc/boot/controller.go"
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
