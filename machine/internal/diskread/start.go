package diskread

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/layers"
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
		next.done <- next.command.Start()
	}
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

// mountNowhere mounts the disk in a mount namespace that nobody else ever sees and that ends with this call: what is left is a
// descriptor of the mount. A mount in hostd's own namespace would be copied into whatever sandbox starts at that moment, and keep the
// disk for as long as that lives.
func mountNowhere(lower []string, point string) (*os.File, error) {
	type result struct {
		disk *os.File
		err  error
	}
	made := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function, and its namespace with the thread
		disk, err := mountHere(lower, point)
		made <- result{disk, err}
	}()
	r := <-made
	return r.disk, r.err
}

func mountHere(lower []string, point string) (*os.File, error) {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return nil, fmt.Errorf("a mount namespace for the disk: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, err
	}
	if err := layers.ReadOnly(lower, point); err != nil {
		return nil, err
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, point, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("taking the disk's mount: %w", err)
	}
	if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "disk"), nil
}
