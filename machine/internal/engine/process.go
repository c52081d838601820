package engine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process identifies a process by pid and start time, because pids are reused.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot, field 22 of /proc/PID/stat
}

var errGone = errors.New("the process is gone")

func FindProcess(pid int) (Process, error) {
	start, err := startTime(pid)
	if err != nil {
		return Process{}, err
	}
	return Process{PID: pid, Start: start}, nil
}

// Alive is false for a zombie, which holds neither memory nor mounts.
func (p Process) Alive() bool {
	start, err := startTime(p.PID)
	return err == nil && start == p.Start
}

// open compares the start time before and after it opens the pidfd, to detect a reused pid.
func (p Process) open() (*os.File, error) {
	if !p.Alive() {
		return nil, errGone
	}
	fd, err := unix.PidfdOpen(p.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if !p.Alive() {
		unix.Close(fd)
		return nil, errGone
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// watch needs no thread, because a pidfd becomes readable when its process ends.
func (p Process) watch() (<-chan struct{}, error) {
	file, err := p.open()
	if err != nil {
		return nil, err
	}
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer file.Close()
		// If the runtime cannot poll the descriptor, Read fails and the process is polled.
		if err := raw.Read(func(fd uintptr) bool { return readable(int(fd)) }); err != nil {
			waitByPolling(p)
		}
	}()
	return done, nil
}

func readable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1
}

func startTime(pid int) (uint64, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, errGone
	}
	// The command's name may contain parentheses, so the last one ends it.
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, fmt.Errorf("unexpected stat of process %d", pid)
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 20 {
		return 0, fmt.Errorf("unexpected stat of process %d", pid)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, errGone
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func arguments(pid int) []string {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil || len(line) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
}

func waitByPolling(p Process) {
	for p.Alive() {
		time.Sleep(100 * time.Millisecond)
	}
}
