package spawn

import (
	"bytes"
	"errors"
	"log"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/procfs"
)

// If the guest stops a child before execve, the child's worker is blocked in vfork. So a stopped child is killed
// after lookSeconds without a reply. Any other child, as on a stalled host, is killed after answerSecondsMax.
const (
	lookSeconds      = 1
	answerSecondsMax = 20
	// A child that waits for a disk cannot be killed, so Start gives up after this time.
	gaveUpSeconds = 5
	freeMax       = answerSecondsMax * time.Second
)

var errSilent = errors.New("the spawner does not answer")

// tooSlow is the error of a start that took too long. The caller must reap pid, unless it is 0.
func tooSlow(pid int32) error {
	return &StartError{Stage: StageSlow, Errno: syscall.ETIMEDOUT, PID: int(pid)}
}

// receiveSoon kills no process: the guest cannot delay this reply, because no guest process runs yet.
func (s *Spawner) receiveSoon(socket int) (reply, []int, error) {
	for looks := 0; ; looks++ {
		r, fds, err := s.receive(socket)
		if !errors.Is(err, errSilent) {
			return r, fds, err
		}
		if looks*lookSeconds >= answerSecondsMax {
			return r, fds, ErrBroken
		}
	}
}

func (s *Spawner) acquireWorker() (workerConn, error) {
	select {
	case worker := <-s.free:
		return worker, nil
	default:
	}
	late := time.NewTimer(freeMax)
	defer late.Stop()
	select {
	case worker := <-s.free:
		return worker, nil
	case <-late.C:
		return workerConn{}, &StartError{Stage: StageFork, Errno: syscall.EAGAIN}
	}
}

func (s *Spawner) await(worker workerConn) (reply, error) {
	var killed []int
	for seconds := 0; ; seconds += lookSeconds {
		r, err := s.answer(worker.socket)
		if !errors.Is(err, errSilent) {
			s.free <- worker
			if err == nil && slices.Contains(killed, int(r.pid)) {
				return reply{}, tooSlow(r.pid)
			}
			return r, err
		}
		if seconds >= answerSecondsMax+gaveUpSeconds {
			s.late.Go(func() { s.awaitLate(worker) })
			return reply{}, tooSlow(0)
		}
		killed = append(killed, killUnfinished(worker, seconds >= answerSecondsMax)...)
	}
}

func (s *Spawner) awaitLate(worker workerConn) {
	for {
		r, err := s.answer(worker.socket)
		if errors.Is(err, errSilent) {
			killUnfinished(worker, true)
			continue
		}
		if r.pid != 0 && s.OnLate != nil {
			s.OnLate(int(r.pid))
		}
		s.free <- worker
		return
	}
}

func (s *Spawner) answer(socket int) (reply, error) {
	r, fds, err := s.receive(socket)
	closeAll(fds)
	return r, err
}

func killUnfinished(worker workerConn, anyway bool) (killed []int) {
	for _, pid := range unfinished(worker, anyway) {
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		// The pid may have been reused before the pidfd was opened, so the process is checked again.
		if slices.Contains(unfinished(worker, anyway), pid) && unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) == nil {
			log.Printf("process %d has not become its program and is killed", pid)
			killed = append(killed, pid)
		}
		unix.Close(pidfd)
	}
	return killed
}

const nameBytes = 16

// workerName is also the name of the worker's child until the child executes a program.
func workerName(number int) string { return "agent-worker-" + strconv.Itoa(number) }

// unfinished also returns a guest's program with the worker's name.
func unfinished(worker workerConn, all bool) (pids []int) {
	self := strconv.Itoa(os.Getpid())
	procfs.Visit(func(pid int, read func(file string) ([]byte, error)) {
		stat, err := read("stat")
		open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		if err != nil || pid == worker.pid || open < 0 || end < open || string(stat[open+1:end]) != worker.name {
			return
		}
		fields := bytes.Fields(stat[end+1:]) // state and parent
		if len(fields) > 1 && string(fields[1]) == self && (all || string(fields[0]) == "T") {
			pids = append(pids, pid)
		}
	})
	return pids
}
