package spawn

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// firstSocketFD is where the agent puts the spawner's sockets, one for each worker.
const firstSocketFD = 3

// ServeSpawner is the whole life of the spawner process: adopt the claim once, then start commands until the agent goes.
// Its arguments are the number of its sockets and the Layout as JSON.
func ServeSpawner(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("spawner: %d arguments", len(args))
	}
	var layout Layout
	workers, err := strconv.Atoi(args[0])
	if err = errors.Join(err, json.Unmarshal([]byte(args[1]), &layout)); err != nil || workers < 1 {
		return fmt.Errorf("spawner: arguments: %w", err)
	}
	// The heap is a few hundred KiB: collect rarely, and never let it grow.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(24 << 20)
	// Commands may look at this process only between fork and execve, and not into its memory.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl: %w", err)
	}
	for i := range workers {
		unix.CloseOnExec(firstSocketFD + i)
	}
	devNull, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("/dev/null: %w", err)
	}
	guest, err := serveAdopt(firstSocketFD, devNull, layout)
	if err != nil {
		return err
	}
	done := make(chan error, workers)
	for i := range workers {
		go func() { done <- serveCommands(firstSocketFD+i, devNull, guest) }()
	}
	return <-done
}

// serveAdopt prepares all it can, waits for the claim, and answers with the pid of the guest's init.
func serveAdopt(socket, devNull int, layout Layout) (guest int, err error) {
	program, err := sleeperFD()
	if err != nil {
		return 0, err
	}
	defer unix.Close(program)
	s, err := adoptScript(layout, devNull, program)
	if err != nil {
		return 0, err
	}
	var message [2]byte
	if n, err := readMessage(socket, message[:]); err != nil || n != 1 || message[0] != messageAdopt {
		return 0, fmt.Errorf("spawner: expected the claim: %w", err)
	}
	answer := s.run()
	if err := sendReply(socket, answer, -1); err != nil {
		return 0, err
	}
	if answer.stage != StageSpawned {
		return 0, fmt.Errorf("spawner: adopting failed at step %d: %w", answer.stage, syscall.Errno(answer.errno))
	}
	return int(answer.pid), nil
}

// run starts the script and says how it went. vfork returns once the child has executed a program or died.
func (s *script) run() reply {
	pid, errno := s.start()
	if errno != 0 {
		return reply{stage: StageFork, errno: uint32(errno)}
	}
	// A child that reported a failure leaves its pid for the reaper, with an exit nobody asks about.
	failed := s.failure()
	r := reply{pid: int32(pid), guestPID: s.guestPID, stage: failed, errno: s.errno}
	if failed == StageSpawned {
		r.errno = 0
	}
	return r
}

func serveCommands(socket, devNull, guest int) error {
	runtime.LockOSThread()
	if err := enterGuest(guest); err != nil {
		return err
	}
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := sendReply(socket, reply{}, root); err != nil {
		return err
	}
	unix.Close(root)
	w := worker{socket: socket, devNull: devNull, buffer: make([]byte, messageBytesMax)}
	for {
		if err := w.serveOne(); errors.Is(err, io.EOF) {
			return nil // the agent has let go
		} else if err != nil {
			return err
		}
	}
}

// enterGuest moves this thread into the guest's mounts; what it starts is born in the guest's PID namespace.
func enterGuest(guest int) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	pidfd, err := unix.PidfdOpen(guest, 0)
	if err != nil {
		return fmt.Errorf("pidfd_open: %w", err)
	}
	defer unix.Close(pidfd)
	if err := unix.Setns(pidfd, unix.CLONE_NEWNS|unix.CLONE_NEWPID); err != nil {
		return fmt.Errorf("setns: %w", err)
	}
	return unix.Chdir("/")
}

type worker struct {
	socket, devNull int
	buffer          []byte
}

func (w *worker) serveOne() error {
	n, fds, err := recvWithFDs(w.socket, w.buffer)
	if err != nil {
		return err
	}
	defer closeAll(fds)
	answer := reply{stage: StageFork, errno: uint32(syscall.EINVAL)}
	if n > 0 && w.buffer[0] == messageExec && (len(fds) == 2 || len(fds) == 3) {
		answer = w.spawn(w.buffer[1:n], fds)
	}
	return sendReply(w.socket, answer, -1)
}

func (w *worker) spawn(message []byte, fds []int) reply {
	refused := reply{stage: StageFork, errno: uint32(syscall.EINVAL)}
	c, err := decodeCommand(message)
	if err != nil {
		return refused
	}
	stdio := [3]int{w.devNull, fds[0], fds[1]}
	if len(fds) == 3 {
		stdio[0] = fds[2]
	}
	s, err := scriptOf(c, stdio)
	if err != nil {
		return refused
	}
	return s.run()
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
