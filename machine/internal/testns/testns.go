// Package testns runs the tests of a package in namespaces of their own, which end with them: the tests mount, make links and
// set rules for real, and whatever happens to them, the kernel takes all of it away with the last of their processes.
package testns

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

const (
	inside     = "BERTH_TEST_NAMESPACE"
	netnsNames = "/run/netns"
)

// Run is m.Run in namespaces: it starts the test binary again in a new mount namespace, and in the further namespaces of `also`
// (CLONE_NEW… flags). There, `checks` are called in turn before the first test; one that fails ends it. Returns the exit code.
func Run(m *testing.M, also uintptr, checks ...func() error) int {
	if os.Getenv(inside) != "" {
		if err := prepare(checks); err != nil {
			return refuse(err)
		}
		return m.Run()
	}
	if os.Getuid() != 0 {
		return refuse("these tests make namespaces and mounts: run them as root")
	}
	again := exec.Command("/proc/self/exe", os.Args[1:]...)
	again.Env = append(os.Environ(), inside+"=1")
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | also, Pdeathsig: syscall.SIGKILL}
	if err := again.Run(); err != nil {
		return refuse(err)
	}
	return 0
}

func prepare(checks []func() error) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// Where `ip netns` keeps its names: outside they would outlive a test that is killed.
	if err := os.MkdirAll(netnsNames, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", netnsNames, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount %s: %w", netnsNames, err)
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func refuse(why any) int {
	fmt.Fprintln(os.Stderr, why)
	return 1
}
