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

// cloneArgs is the kernel's first version of clone3's argument.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64
}

// rawVfork returns twice; in the child pid is 0.
func rawVfork(args *cloneArgs, size uintptr) (pid, errno uintptr)

// vforkFlags: the child's signal handlers are reset by the kernel in one go, where the runtime's own way is sixty calls.
const vforkFlags = unix.CLONE_VFORK | unix.CLONE_VM | unix.CLONE_CLEAR_SIGHAND

// step is one system call of a child between vfork and execve: memory may not be allocated there.
type step struct {
	nr    uintptr
	args  [5]uintptr
	stage uint32
	soft  bool // a failure is ignored
}

// script is all a child does: the steps, then execve of the first candidate that can be executed. The child shares the
// parent's memory, so it reports by writing into the script.
type script struct {
	clone      cloneArgs
	steps      []step
	candidates []*byte
	argv       **byte
	env        **byte
	execFD     uintptr // not 0: execveat of this descriptor, and candidates are ignored
	kept       []unsafe.Pointer

	guestPID int32
	stage    uint32 // where the child stands, or stood when it gave up
	errno    uint32
	failed   bool
}

// failure is the stage at which the child gave up, or StageSpawned.
func (s *script) failure() uint32 {
	if s.failed {
		return s.stage
	}
	return StageSpawned
}

// start runs the script in a new process and returns its pid as the caller sees it.
//
//go:noinline
//go:norace
func (s *script) start() (pid, errno uintptr) {
	runtimeBeforeFork()
	pid, errno = forkAndRun(s)
	runtimeAfterFork()
	return pid, errno
}

// forkAndRun may not grow the stack, and in the parent may not touch a local after rawVfork: the child wrote over them.
//
//go:noinline
//go:norace
//go:nosplit
func forkAndRun(s *script) (pid, errno uintptr) {
	pid, errno = rawVfork(&s.clone, unsafe.Sizeof(s.clone))
	if pid != 0 {
		return pid, errno
	}
	runChild(s)
	return 0, 0
}

//go:noinline
//go:norace
//go:nosplit
func runChild(s *script) {
	self, _, _ := syscall.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
	s.guestPID = int32(self)
	for i := range s.steps { // all signals are blocked; the last step lets them in
		t := &s.steps[i]
		_, _, e := syscall.RawSyscall6(t.nr, t.args[0], t.args[1], t.args[2], t.args[3], t.args[4], 0)
		if e != 0 && !t.soft {
			s.stage, s.errno, s.failed = t.stage, uint32(e), true
			exitChild()
		}
	}
	execChild(s)
	s.failed = true
	exitChild()
}

// execChild tries the candidates as execvp does: a missing one is skipped, a forbidden one remembered.
//
//go:noinline
//go:norace
//go:nosplit
func execChild(s *script) {
	s.stage, s.errno = StageExec, uint32(syscall.ENOENT)
	if s.execFD != 0 {
		_, _, e := syscall.RawSyscall6(unix.SYS_EXECVEAT, s.execFD, uintptr(unsafe.Pointer(&emptyPath)),
			uintptr(unsafe.Pointer(s.argv)), uintptr(unsafe.Pointer(s.env)), unix.AT_EMPTY_PATH, 0)
		s.errno = uint32(e)
		return
	}
	forbidden := false
	for _, path := range s.candidates {
		_, _, e := syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)),
			uintptr(unsafe.Pointer(s.argv)), uintptr(unsafe.Pointer(s.env)))
		s.errno = uint32(e)
		if e == syscall.EACCES {
			forbidden = true
		} else if e != syscall.ENOENT && e != syscall.ENOTDIR {
			return
		}
	}
	if forbidden {
		s.errno = uint32(syscall.EACCES)
	}
}

//go:noinline
//go:norace
//go:nosplit
func exitChild() {
	for {
		syscall.RawSyscall(unix.SYS_EXIT, 127, 0, 0)
	}
}

var emptyPath byte

var noSignals uint64

// unblock is the last step of every script: the runtime has blocked all signals in the thread that forks.
func (s *script) unblock() {
	s.add(StageFork, false, unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&noSignals)), 0, 8)
}
