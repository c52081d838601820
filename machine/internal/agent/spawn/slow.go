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

// A child is the guest's to signal from its birth on, so a guest can stop it before it has executed its program: its worker then waits
// in vfork for as long as the guest likes. A worker that does not answer is looked at every lookSeconds. A stopped child is killed at
// once, any other one after answerSecondsMax, as on a host that stands still. The worker then answers. No other process is touched.
const (
	lookSeconds      = 1
	answerSecondsMax = 20
	// gaveUpSeconds after that the caller is let go. Neither can be killed then: both wait for a disk, for example.
	gaveUpSeconds = 5
	freeMax       = answerSecondsMax * time.Second
)

// errSilent: no answer came within lookSeconds.
var errSilent = errors.New("the spawner does not answer")

// tooSlow is the error of a start that was ended. pid, when not 0, is to be waited for.
func tooSlow(pid int32) error {
	return &StartError{Stage: StageSlow, Errno: syscall.ETIMEDOUT, PID: int(pid)}
}

// receiveSoon waits for an answer that the guest cannot delay: no process of it runs.
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

// take waits for a worker that is free.
func (s *Spawner) take() (line, error) {
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
		return line{}, &StartError{Stage: StageFork, Errno: syscall.EAGAIN}
	}
}

// await gives the answer of a worker that has a program, and has the worker free again, now or when it has answered.
func (s *Spawner) await(worker line) (reply, error) {
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

// awaitLate waits for a worker whose caller has gone. What it started nobody asked for any more.
func (s *Spawner) awaitLate(worker line) {
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

// killUnfinished kills the unfinished child of a worker if it is stopped, or in any case. It returns whom it killed.
func killUnfinished(worker line, anyway bool) (killed []int) {
	for _, pid := range unfinished(worker, anyway) {
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		// Looked at again: the number may have become another's before it was held.
		if slices.Contains(unfinished(worker, anyway), pid) && unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) == nil {
			log.Printf("process %d has not become its program and is killed", pid)
			killed = append(killed, pid)
		}
		unix.Close(pidfd)
	}
	return killed
}

// nameBytes is the longest name of a process, with the 0 at its end.
const nameBytes = 16

// workerName is a worker's name, and that of its children until they have executed a program.
func workerName(number int) string { return "agent-worker-" + strconv.Itoa(number) }

// unfinished lists the children of a worker that have not executed a program, only stopped ones unless all are wanted. Like the worker
// itself they are children of this process, and have its name. A program of the guest that takes that name is taken for one of them.
func unfinished(worker line, all bool) (pids []int) {
	self := strconv.Itoa(os.Getpid())
	procfs.Visit(func(pid int, read func(file string) ([]byte, error)) {
		stat, err := read("stat")
		open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		if err != nil || pid == worker.pid || open < 0 || end < open || string(stat[open+1:end]) != worker.name {
			return
		}
		fields := bytes.Fields(stat[end+1:]) // the state, then the parent
		if len(fields) > 1 && string(fields[1]) == self && (all || string(fields[0]) == "T") {
			pids = append(pids, pid)
		}
	})
	return pids
}
