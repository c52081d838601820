package spawn

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

//go:linkname runtimeBeforeFork syscall.runtime_BeforeFork
func runtimeBeforeFork()

//go:linkname runtimeAfterFork syscall.runtime_AfterFork
func runtimeAfterFork()

// cloneArgs is the first version of clone3's argument.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64
}

// rawVfork returns twice; in the child pid is 0.
func rawVfork(args *cloneArgs, size uintptr) (pid, errno uintptr)

// CLONE_CLEAR_SIGHAND makes the kernel reset all signal handlers at once, instead of sixty calls by the runtime.
const vforkFlags = unix.CLONE_VFORK | unix.CLONE_VM | unix.CLONE_CLEAR_SIGHAND

const descriptorsPassedMax = 3

// fork is the state of one start. The child shares the parent's memory, and reports by writing to the fields.
type fork struct {
	clone       cloneArgs
	at          uintptr // address of the program
	descriptors [descriptorsPassedMax]int32

	guestPID int32
	stage    uint32 // current stage of the child, or the one that failed
	errno    uint32
	failed   bool
}

// All functions below run without a Go runtime: in a child between vfork and execve, or in a forked worker. They must
// not allocate or grow their stack.

// start runs the program at the address `at`. Offsets in the program become pointers, in place.
//
//go:noinline
//go:norace
//go:nosplit
func (f *fork) start(at uintptr) reply {
	f.at = at
	f.guestPID, f.stage, f.errno, f.failed = 0, 0, 0, false
	h := f.header()
	f.clone = cloneArgs{flags: h.clone, exitSignal: h.exitSignal}
	relocate(h)
	pid, errno := forkAndRun(f)
	if errno != 0 {
		return reply{stage: StageFork, errno: uint32(errno)}
	}
	if f.failed {
		// The child has exited. The reaper drops the exit of this pid.
		return reply{pid: int32(pid), guestPID: f.guestPID, stage: f.stage, errno: f.errno}
	}
	return reply{pid: int32(pid), guestPID: f.guestPID, stage: StageSpawned}
}

//go:norace
//go:nosplit
func (f *fork) header() *header { return *(**header)(unsafe.Pointer(&f.at)) }

//go:norace
//go:nosplit
func stepOf(h *header, i uint64) *step {
	return (*step)(unsafe.Add(unsafe.Pointer(h), headerBytes+uintptr(i)*stepBytes))
}

//go:noinline
//go:norace
//go:nosplit
func relocate(h *header) {
	base := uintptr(unsafe.Pointer(h))
	for i := uint64(0); i < h.steps; i++ {
		s := stepOf(h, i)
		for a := uint32(0); a < 5; a++ {
			if s.pointers&(1<<a) != 0 {
				s.args[a] += base
			}
		}
	}
	relocateArray(base, h.candidates)
	relocateArray(base, h.argv)
	relocateArray(base, h.env)
}

//go:noinline
//go:norace
//go:nosplit
func relocateArray(base uintptr, offset uint64) {
	if offset == 0 {
		return
	}
	for p := (*uintptr)(address(base, offset)); *p != 0; p = (*uintptr)(unsafe.Add(unsafe.Pointer(p), 8)) {
		*p += base
	}
}

// The memory is not collected meanwhile: the caller's slice outlives the call, or a worker runs, which never
// collects.
//
//go:norace
//go:nosplit
func address(base uintptr, offset uint64) unsafe.Pointer {
	at := base + uintptr(offset)
	return *(*unsafe.Pointer)(unsafe.Pointer(&at))
}

// After rawVfork the parent must not use a local variable, because the child has overwritten them.
//
//go:noinline
//go:norace
//go:nosplit
func forkAndRun(f *fork) (pid, errno uintptr) {
	pid, errno = rawVfork(&f.clone, unsafe.Sizeof(f.clone))
	if pid != 0 {
		return pid, errno
	}
	runChild(f)
	return 0, 0
}

//go:noinline
//go:norace
//go:nosplit
func runChild(f *fork) {
	self, _, _ := syscall.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
	f.guestPID = int32(self)
	h := f.header()
	for i := uint64(0); i < h.steps; i++ { // signals are blocked until the last step
		s := stepOf(h, i)
		if s.descriptors != 0 {
			f.place(s)
		}
		_, _, e := syscall.RawSyscall6(s.nr, s.args[0], s.args[1], s.args[2], s.args[3], s.args[4], 0)
		if e != 0 && s.soft == 0 {
			f.stage, f.errno, f.failed = s.stage, uint32(e), true
			exitChild(127)
		}
	}
	execChild(f, h)
	f.failed = true
	exitChild(127)
}

//go:norace
//go:nosplit
func (f *fork) place(s *step) {
	for a := uint32(0); a < 5; a++ {
		if s.descriptors&(1<<a) == 0 {
			continue
		}
		if index := s.args[a]; index < descriptorsPassedMax {
			s.args[a] = uintptr(f.descriptors[index])
		}
	}
}

// As in execvp, missing candidates are skipped. EACCES is reported if no other candidate can be executed.
//
//go:noinline
//go:norace
//go:nosplit
func execChild(f *fork, h *header) {
	f.stage, f.errno = StageExec, uint32(syscall.ENOENT)
	argv, env := f.at+uintptr(h.argv), f.at+uintptr(h.env)
	if h.execFD != 0 {
		_, _, e := syscall.RawSyscall6(unix.SYS_EXECVEAT, uintptr(h.execFD), uintptr(unsafe.Pointer(&emptyPath)), argv, env, unix.AT_EMPTY_PATH, 0)
		f.errno = uint32(e)
		return
	}
	if h.candidates == 0 {
		return
	}
	forbidden := false
	for p := (*uintptr)(address(f.at, h.candidates)); *p != 0; p = (*uintptr)(unsafe.Add(unsafe.Pointer(p), 8)) {
		_, _, e := syscall.RawSyscall(unix.SYS_EXECVE, *p, argv, env)
		f.errno = uint32(e)
		if e == syscall.EACCES {
			forbidden = true
		} else if e != syscall.ENOENT && e != syscall.ENOTDIR {
			return
		}
	}
	if forbidden {
		f.errno = uint32(syscall.EACCES)
	}
}

//go:noinline
//go:norace
//go:nosplit
func exitChild(code uintptr) {
	for {
		syscall.RawSyscall(unix.SYS_EXIT, code, 0, 0)
	}
}

var emptyPath byte
