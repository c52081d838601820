package spawn

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/rehearse"
)

// worker is a fork without the spawner's other threads, so it costs nothing while it waits. The monitor of a Go
// runtime would wake every 20 µs during a start.
type worker struct {
	socket  uintptr
	name    [nameBytes]byte
	close   []uintptr // descriptors of other workers
	adopt   uintptr   // address of the program that makes the guest; 0: another worker has it
	sleeper uintptr   // descriptor of the file that the program at adopt executes
	text    []rehearse.Range
	program []uint64
	control [8]uint64
	iov     unix.Iovec
	message unix.Msghdr
	answer  reply
	fork    fork
	poll    unix.PollFd // for the first message
	quiet   unix.Timespec
}

func newWorker(number, socket int, others []int) *worker {
	w := &worker{socket: uintptr(socket), program: make([]uint64, messageBytesMax/8)}
	copy(w.name[:nameBytes-1], workerName(number))
	w.poll, w.quiet = unix.PollFd{Fd: int32(socket), Events: unix.POLLIN}, unix.NsecToTimespec(int64(rehearse.Quiet))
	for _, fd := range others {
		w.close = append(w.close, uintptr(fd))
	}
	return w
}

// launch makes the worker a child of the agent.
func (w *worker) launch() error {
	w.fork.clone = cloneArgs{flags: unix.CLONE_PARENT}
	runtimeBeforeFork()
	pid, errno := forkWorker(w)
	runtimeAfterFork()
	if pid == ^uintptr(0) {
		return fmt.Errorf("forking a worker: %w", syscall.Errno(errno))
	}
	return nil
}

//go:noinline
//go:norace
//go:nosplit
func forkWorker(w *worker) (pid, errno uintptr) {
	pid, errno = rawVfork(&w.fork.clone, unsafe.Sizeof(w.fork.clone))
	if pid != 0 {
		return pid, errno
	}
	w.live()
	return 0, 0
}

//go:noinline
//go:norace
//go:nosplit
func (w *worker) live() {
	// Children have this name until they execute a program: `unfinished` finds children by it.
	syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&w.name)), 0)
	for i := range w.close {
		syscall.RawSyscall(unix.SYS_CLOSE, w.close[i], 0, 0)
	}
	w.rehearse()
	if w.adopt != 0 && !w.makeGuest() {
		exitChild(1)
	}
	if !w.receive() || !w.enter() {
		exitChild(1)
	}
	for w.receive() {
		w.answer = w.fork.start(uintptr(unsafe.Pointer(&w.program[0])))
		w.send(0)
		w.closeDescriptors()
	}
	exitChild(0)
}

// rehearse maps pages of code in advance, because they are mapped per process. A message skips the rest of the pause
// and the mapping.
//
//go:noinline
//go:norace
//go:nosplit
func (w *worker) rehearse() {
	n, _, e := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&w.poll)), 1, uintptr(unsafe.Pointer(&w.quiet)), 0, 0, 0)
	if n != 0 || e != 0 {
		return
	}
	for i := range w.text {
		w.text[i].Map()
	}
}

// makeGuest starts the guest's init, which remains a child of this worker. The worker does not reap it.
//
//go:noinline
//go:norace
//go:nosplit
func (w *worker) makeGuest() bool {
	if !w.receive() {
		return false
	}
	w.answer = w.fork.start(w.adopt)
	syscall.RawSyscall(unix.SYS_CLOSE, w.sleeper, 0, 0)
	return w.send(0) && w.answer.stage == StageSpawned
}

// The first message has the pidfd of the guest's init, whose namespaces the worker enters for its children. The
// reply has a descriptor of the worker's root.
//
//go:noinline
//go:norace
//go:nosplit
func (w *worker) enter() bool {
	if _, _, e := syscall.RawSyscall(unix.SYS_SETNS, uintptr(w.fork.descriptors[0]), unix.CLONE_NEWNS|unix.CLONE_NEWPID, 0); e != 0 {
		return false
	}
	slash := [2]byte{'/', 0}
	if _, _, e := syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(&slash)), 0, 0); e != 0 {
		return false
	}
	at := unix.AT_FDCWD
	root, _, e := syscall.RawSyscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(&slash)), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0, 0, 0)
	if e != 0 {
		return false
	}
	self, _, _ := syscall.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
	w.answer = reply{pid: int32(self)}
	rights := (*passing)(unsafe.Pointer(&w.control))
	rights.header.Len, rights.header.Level, rights.header.Type = uint64(passingBytes(1)), unix.SOL_SOCKET, unix.SCM_RIGHTS
	rights.fds[0] = int32(root)
	sent := w.send(passingBytes(1))
	syscall.RawSyscall(unix.SYS_CLOSE, root, 0, 0)
	w.closeDescriptors()
	return sent
}

type passing struct {
	header unix.Cmsghdr
	fds    [descriptorsPassedMax]int32
}

//go:nosplit
func passingBytes(count int) int { return int(unsafe.Offsetof(passing{}.fds)) + 4*count }

// receive returns false if the agent closed the socket or sent an invalid message.
//
//go:noinline
//go:norace
//go:nosplit
func (w *worker) receive() bool {
	for {
		w.iov.Base, w.iov.Len = (*byte)(unsafe.Pointer(&w.program[0])), uint64(len(w.program))*8
		w.message = unix.Msghdr{}
		w.message.Iov, w.message.Iovlen = &w.iov, 1
		w.message.Control = (*byte)(unsafe.Pointer(&w.control))
		w.message.Controllen = uint64(unsafe.Sizeof(w.control))
		n, _, e := syscall.RawSyscall(unix.SYS_RECVMSG, w.socket, uintptr(unsafe.Pointer(&w.message)), unix.MSG_CMSG_CLOEXEC)
		if e == syscall.EINTR {
			continue
		}
		if e != 0 || n < headerBytes || w.message.Flags&unix.MSG_TRUNC != 0 {
			return false
		}
		w.take()
		return true
	}
}

//go:noinline
//go:norace
//go:nosplit
func (w *worker) take() {
	rights := (*passing)(unsafe.Pointer(&w.control))
	for i := range w.fork.descriptors {
		w.fork.descriptors[i] = -1
		if uint64(w.message.Controllen) >= uint64(passingBytes(i+1)) && uint64(rights.header.Len) >= uint64(passingBytes(i+1)) {
			w.fork.descriptors[i] = rights.fds[i]
		}
	}
}

//go:noinline
//go:norace
//go:nosplit
func (w *worker) closeDescriptors() {
	for i := range w.fork.descriptors {
		if fd := w.fork.descriptors[i]; fd >= 0 {
			syscall.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
		}
	}
}

//go:noinline
//go:norace
//go:nosplit
func (w *worker) send(control int) bool {
	for {
		w.iov.Base, w.iov.Len = (*byte)(unsafe.Pointer(&w.answer)), replyBytes
		w.message = unix.Msghdr{}
		w.message.Iov, w.message.Iovlen = &w.iov, 1
		if control > 0 {
			w.message.Control = (*byte)(unsafe.Pointer(&w.control))
			w.message.Controllen = uint64(control)
		}
		_, _, e := syscall.RawSyscall(unix.SYS_SENDMSG, w.socket, uintptr(unsafe.Pointer(&w.message)), unix.MSG_NOSIGNAL)
		if e != syscall.EINTR {
			return e == 0
		}
	}
}
