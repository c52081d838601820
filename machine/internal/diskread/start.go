package diskread

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

type start struct {
	command *exec.Cmd
	done    chan error
}

// Every user id maps to itself, so the reader may read any file of the disk. It has no privileges on the host.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
	unix.CLONE_NEWCGROUP

func (s *Starter) start(command *exec.Cmd) error {
	ids, err := ownIDs()
	if err != nil {
		return err
	}
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
		Setsid: true, Pdeathsig: unix.SIGKILL}
	next := start{command: command, done: make(chan error, 1)}
	s.starts <- next
	return <-next.done
}

// The kernel kills the readers when the thread that started them ends. So one locked thread starts all readers.
func (s *Starter) run() {
	runtime.LockOSThread()
	for next := range s.starts {
		next.done <- startUnprotected(next.command)
	}
}

// The reader parses a guest's data, so it must not keep the OOM protection that it inherits from hostd.
func startUnprotected(command *exec.Cmd) error {
	if err := command.Start(); err != nil {
		return err
	}
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", command.Process.Pid), []byte("500"), 0) // after a failure the reader has just ended, or stays as protected as hostd
	return nil
}

func ownIDs() ([]syscall.SysProcIDMap, error) {
	file, err := os.Open("/proc/self/uid_map")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var ids []syscall.SysProcIDMap
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var inside, outside, count int
		if _, err := fmt.Sscan(lines.Text(), &inside, &outside, &count); err != nil {
			return nil, err
		}
		ids = append(ids, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: count})
	}
	return ids, nil
}
