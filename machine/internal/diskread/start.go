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

// namespaces that a reader has for itself. In its user namespace every id stands for itself, so that it can be allowed to read any
// file of the disk; what it may do there it may not do to the host.
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

// run is one thread for as long as the process lives: the kernel ends the children of a thread with it.
func (s *Starter) run() {
	runtime.LockOSThread()
	for next := range s.starts {
		next.done <- startUnprotected(next.command)
	}
}

// startUnprotected gives the reader the score of a process that nobody protects: it reads what a guest wrote.
func startUnprotected(command *exec.Cmd) error {
	if err := command.Start(); err != nil {
		return err
	}
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", command.Process.Pid), []byte("500"), 0) // it has just ended, or is as protected as hostd
	return nil
}

// ownIDs maps each id of this process's user namespace onto itself.
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
