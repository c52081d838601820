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

// A guest can signal a child from its birth on. If it stops the child before execve, the worker stays blocked in vfork.
// So the agent checks a silent worker every lookSeconds. It kills a stopped child at once, and any other after
// answerSecondsMax, as on a stalled host. The worker then answers. No other process is touched.
const (
	lookSeconds      = 1
	answerSecondsMax = 20
	// gaveUpSeconds later Start returns an error. The child cannot be killed then, for example while it waits for a disk.
	gaveUpSeconds = 5
	freeMax       = answerSecondsMax * time.Second
)

// errSilent means that no answer came within lookSeconds.
var errSilent = errors.New("the spawner does not answer")

// tooSlow returns the error of a killed start. If pid is not 0, the caller must reap it.
func tooSlow(pid int32) error {
	return &StartError{Stage: StageSlow, Errno: syscall.ETIMEDOUT, PID: int(pid)}
}

// receiveSoon waits for an answer that the guest cannot delay, since none of its processes runs yet.
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

// await returns the worker's answer, and frees the worker, if need be after a late answer.
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

// awaitLate waits for a worker whose caller has returned, and reports the started process to OnLate.
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

// killUnfinished kills the worker's unfinished child if it is stopped, or anyway. It returns the killed pids.
func killUnfinished(worker workerConn, anyway bool) (killed []int) {
	for _, pid := range unfinished(worker, anyway) {
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		// Check again: the pid may have been reused before the pidfd was opened.
		if slices.Contains(unfinished(worker, anyway), pid) && unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) == nil {
			log.Printf("process %d has not become its program and is killed", pid)
			killed = append(killed, pid)
		}
		unix.Close(pidfd)
	}
	return killed
}

// nameBytes is the longest process name with its final 0.
const nameBytes = 16

// workerName is the process name of a worker, and of its children until they execute a program.
func workerName(number int) string { return "agent-worker-" + strconv.Itoa(number) }

// unfinished lists a worker's children that have not executed a program: all, or only stopped ones. They are children
// of the agent with the worker's name. A guest's program with that name counts too.
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
