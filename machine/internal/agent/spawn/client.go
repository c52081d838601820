package spawn

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrBroken means that the spawner or the guest's init is gone. A new spawner must adopt the tree.
var ErrBroken = errors.New("the guest's first process is gone")

// ErrRefused is an ErrBroken of a start that made no process, so the start can be repeated.
var ErrRefused = fmt.Errorf("%w: no process was made", ErrBroken)

// StartError is a failed start. The caller must reap PID, unless it is 0.
type StartError struct {
	Stage uint32
	Errno syscall.Errno
	PID   int
}

func (e *StartError) Error() string { return fmt.Sprintf("stage %d: %v", e.Stage, e.Errno) }

// Spawner is the agent's side of the spawner process and its workers.
type Spawner struct {
	PID     int   // of the spawner process, which exits once the workers wait
	Guest   int   // pid of the guest's init in the agent's namespace; 0 before Adopt
	Workers []int // set by Adopt
	all     []int // the spawner's socket, then one per worker
	free    chan workerConn
	late    sync.WaitGroup // goroutines that wait for abandoned workers
	// OnLate must kill and reap a process that started after its Start had failed.
	OnLate func(pid int)
}

// The worker's child has the same name until it executes a program.
type workerConn struct {
	socket int
	pid    int
	name   string
}

// Launch starts a spawner, which waits for Prepare.
func Launch(binary string, layout Layout) (*Spawner, error) {
	workers := min(max(runtime.NumCPU(), 2), 4)
	s := &Spawner{free: make(chan workerConn, workers)}
	var theirs []uintptr
	for range workers + 1 {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("socketpair: %w", err)
		}
		defer unix.Close(pair[1])
		s.all, theirs = append(s.all, pair[0]), append(theirs, uintptr(pair[1]))
		tune(pair)
	}
	pid, err := launch(binary, layout, theirs)
	if err != nil {
		s.Close()
		return nil, err
	}
	s.PID = pid
	return s, nil
}

func tune(pair [2]int) {
	for _, fd := range pair {
		// With smaller buffers the request of a large start fails with EMSGSIZE.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 2*messageBytesMax)
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 2*messageBytesMax)
	}
	_ = unix.SetsockoptTimeval(pair[0], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: lookSeconds})
}

func launch(binary string, layout Layout, sockets []uintptr) (int, error) {
	text, err := json.Marshal(layout)
	if err != nil {
		return 0, err
	}
	devNull, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer devNull.Close()
	files := append([]uintptr{devNull.Fd(), devNull.Fd(), 2}, sockets...)
	pid, err := syscall.ForkExec(binary, []string{"agent-spawner", "spawner", strconv.Itoa(len(sockets) - 1), string(text)}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=1"}, Files: files,
	})
	if err != nil {
		return 0, fmt.Errorf("starting the spawner: %w", err)
	}
	return pid, nil
}

// Prepare forks the workers, which inherit the spawner's current limits and cgroup.
func (s *Spawner) Prepare() error { return sendMessage(s.all[0], []byte{messagePrepare}, nil) }

// Adopt makes the claimed tree the guest's root. It returns a descriptor of the root in the guest's view, with the
// guest's mounts.
func (s *Spawner) Adopt() (rootFD int, err error) {
	if err := sendMessage(s.all[1], make([]byte, headerBytes), nil); err != nil {
		return -1, err
	}
	answer, _, err := s.receiveSoon(s.all[1])
	if err != nil {
		return -1, err
	}
	_ = unix.Shutdown(s.all[0], unix.SHUT_RDWR) // skips a warm-up that has not begun, which would now compete for the processor
	if answer.stage != StageSpawned {
		return -1, &StartError{Stage: answer.stage, Errno: syscall.Errno(answer.errno)}
	}
	s.Guest = int(answer.pid)
	return s.awaitWorkers()
}

func (s *Spawner) awaitWorkers() (int, error) {
	rootFD := -1
	if err := s.sendGuest(); err != nil {
		return rootFD, err
	}
	for i, fd := range s.all[1:] {
		greeting, fds, err := s.receiveSoon(fd)
		if err != nil || len(fds) != 1 {
			closeAll(fds)
			return rootFD, fmt.Errorf("the spawner did not enter the guest: %w", err)
		}
		s.Workers = append(s.Workers, int(greeting.pid))
		if rootFD >= 0 {
			closeAll(fds)
		} else {
			rootFD = fds[0]
		}
		s.free <- workerConn{fd, int(greeting.pid), workerName(i)}
	}
	return rootFD, nil
}

func (s *Spawner) sendGuest() error {
	pidfd, err := unix.PidfdOpen(s.Guest, 0)
	if err != nil {
		return fmt.Errorf("pidfd_open: %w", err)
	}
	defer unix.Close(pidfd)
	for _, fd := range s.all[1:] {
		if err := sendMessage(fd, make([]byte, headerBytes), unix.UnixRights(pidfd)); err != nil {
			return fmt.Errorf("the spawner's workers are gone: %w", err)
		}
	}
	return nil
}

func (s *Spawner) receive(fd int) (reply, []int, error) {
	var b [replyBytes + 1]byte
	n, fds, err := recvWithFDs(fd, b[:])
	if errors.Is(err, unix.EAGAIN) {
		return reply{}, fds, errSilent
	}
	if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
		return reply{}, fds, ErrBroken
	}
	if err != nil {
		return reply{}, fds, err
	}
	r, err := decodeReply(b[:n])
	return r, fds, err
}

// Start blocks its thread until the program runs, so that no goroutine switch delays the reply.
func (s *Spawner) Start(c *Command) (Started, error) {
	if ArgumentBytes(c.Argv, c.Env) > ArgumentBytesMax || len(c.Groups) > groupsMax {
		return Started{}, &StartError{Stage: StageExec, Errno: syscall.E2BIG}
	}
	program, err := programOf(c)
	if err != nil {
		return Started{}, &StartError{Stage: StageFork, Errno: syscall.EINVAL}
	}
	return s.run(program, unix.UnixRights(c.descriptors()...), c.Meanwhile)
}

func (s *Spawner) run(program, rights []byte, meanwhile func()) (Started, error) {
	if len(program) > messageBytesMax {
		return Started{}, &StartError{Stage: StageExec, Errno: syscall.E2BIG}
	}
	worker, err := s.acquireWorker()
	if err != nil {
		return Started{}, err
	}
	if err := sendMessage(worker.socket, program, rights); err != nil {
		s.free <- worker
		if errors.Is(err, unix.EMSGSIZE) {
			return Started{}, &StartError{Stage: StageExec, Errno: syscall.E2BIG}
		}
		return Started{}, ErrRefused
	}
	if meanwhile != nil {
		meanwhile()
	}
	r, err := s.await(worker)
	if err != nil {
		return Started{}, err
	}
	return startedOf(r)
}

func startedOf(r reply) (Started, error) {
	if r.stage == StageSpawned {
		return Started{PID: int(r.pid), GuestPID: int(r.guestPID)}, nil
	}
	errno := syscall.Errno(r.errno)
	// ENOMEM means that the init of the PID namespace has died.
	if r.stage == StageFork && r.pid == 0 && errno == syscall.ENOMEM {
		return Started{}, ErrRefused
	}
	return Started{}, &StartError{Stage: r.stage, Errno: errno, PID: int(r.pid)}
}

// Close ends the spawner and its workers, but not the guest's init.
func (s *Spawner) Close() {
	for _, fd := range s.all {
		// A thread may still wait on the descriptor, whose number must not be reused.
		_ = unix.Shutdown(fd, unix.SHUT_RDWR)
	}
}

// Release closes the sockets. It must follow Close, and no Start may be running.
func (s *Spawner) Release() {
	s.late.Wait()
	closeAll(s.all)
}
