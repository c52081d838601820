package network

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// The tests make links, routes and firewall rules for real. They run in a network and a mount namespace of their own, which
// play the host: no packet can leave the computer, and whatever happens to them, the kernel takes everything away at their end.
func TestMain(m *testing.M) {
	const inside = "BERTH_TEST_NAMESPACE"
	if os.Getenv(inside) != "" {
		if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			fmt.Fprintln(os.Stderr, "make mounts private:", err)
			os.Exit(1)
		}
		if links, err := net.Interfaces(); err != nil || len(links) != 1 {
			fmt.Fprintln(os.Stderr, "not in a network namespace of their own:", links, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	if os.Getuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests make network namespaces: run them as root")
		os.Exit(1)
	}
	again := exec.Command("/proc/self/exe", os.Args[1:]...)
	again.Env = append(os.Environ(), inside+"=1")
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := again.Run(); err != nil {
		os.Exit(1)
	}
}
