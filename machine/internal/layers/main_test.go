package layers

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// The tests mount for real. They run in a mount namespace of their own, so that whatever happens to them, the kernel
// unmounts their pools and detaches the loop devices with the last of their processes.
func TestMain(m *testing.M) {
	const inside = "BERTH_TEST_NAMESPACE"
	if os.Getenv(inside) != "" {
		if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			fmt.Fprintln(os.Stderr, "make mounts private:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	if os.Getuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests mount file systems: run them as root")
		os.Exit(1)
	}
	again := exec.Command("/proc/self/exe", os.Args[1:]...)
	again.Env = append(os.Environ(), inside+"=1")
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := again.Run(); err != nil {
		os.Exit(1)
	}
}
