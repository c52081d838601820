package supervisor

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// fork starts a child. A child that is not root can never gain privileges.
func fork(child Child, attributes *syscall.ProcAttr) (pid int, err error) {
	if child.UID == 0 {
		return syscall.ForkExec(child.Argv[0], child.Argv, attributes)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// Privileges belong to the thread and its forks. The thread is locked and so ends with this function.
		runtime.LockOSThread()
		if err = giveUpRights(); err == nil {
			pid, err = syscall.ForkExec(child.Argv[0], child.Argv, attributes)
		}
	}()
	<-ended
	return pid, err
}

// giveUpRights prevents new privileges. The privileges that the thread has now are lost when it changes its user.
func giveUpRights() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("the ambient set: %w", err)
	}
	for capability := uintptr(0); ; capability++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) { // the kernel has no capability of this or a higher number
			break
		}
		if err != nil && !errors.Is(err, unix.EPERM) { // EPERM: an unprivileged supervisor has nothing to drop
			return fmt.Errorf("the bounding set: %w", err)
		}
	}
	return clearInheritable()
}

func clearInheritable() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	err := unix.Capget(&header, &sets[0])
	if err == nil {
		sets[0].Inheritable, sets[1].Inheritable = 0, 0
		err = unix.Capset(&header, &sets[0])
	}
	if err != nil {
		return fmt.Errorf("the inheritable set: %w", err)
	}
	return nil
}
