// Package testns runs the tests of a package in namespaces of their own, which end with them: the tests mount, make links, start
// sandboxes and set rules for real. When their first process ends, for whatever reason, the kernel ends every other and takes the mounts.
// Files and control groups have no such end: they lie in one folder, or are noted in it, and are taken down from outside.
package testns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

const (
	inside     = "BERTH_TEST_NAMESPACE"
	asInit     = "init"  // the first process of the namespaces: it prepares them, starts the tests and reaps
	asTests    = "tests" // the tests
	netnsNames = "/run/netns"
)

// Finish, where a package sets it before Run, is called inside the namespaces when the tests have ended. Its error fails the run.
var Finish func() error

// Run is m.Run in namespaces: it starts the test binary again in new namespaces of mounts and processes, and in the further namespaces of
// `also` (CLONE_NEW… flags). There, `checks` are called in turn before the first test; one that fails ends it. Returns the exit code.
func Run(m *testing.M, also uintptr, checks ...func() error) int {
	switch os.Getenv(inside) {
	case asInit:
		code, err := initialize()
		if err != nil {
			return refuse(err)
		}
		return code
	case asTests:
		for _, check := range checks {
			if err := check(); err != nil {
				return refuse(err)
			}
		}
		code := m.Run()
		if Finish != nil {
			if err := Finish(); err != nil {
				return refuse(err)
			}
		}
		return code
	}
	if os.Getuid() != 0 {
		return refuse("these tests make namespaces and mounts: run them as root")
	}
	code, err := enclosed(also)
	if err != nil {
		return refuse(err)
	}
	return code
}

// enclosed stays outside: it waits, passes an interruption on as the end of all, and takes down what has no end by itself.
func enclosed(also uintptr) (code int, err error) {
	sweep()
	folder, err := newFolder()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, folder.takeDown()) }()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(interrupted)
	again := exec.Command("/proc/self/exe", os.Args[1:]...)
	again.Env = append(os.Environ(), inside+"="+asInit, "TMPDIR="+folder.path)
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | also, Pdeathsig: syscall.SIGKILL}
	if err := again.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- again.Wait() }()
	select {
	case err = <-ended:
	case <-interrupted:
		_ = again.Process.Kill() // it may have ended by itself
		err = <-ended
	}
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return max(1, failed.ExitCode()), nil
	}
	return 0, err
}

func initialize() (code int, err error) {
	if err := prepare(); err != nil {
		return 0, err
	}
	if err := os.Setenv(inside, asTests); err != nil {
		return 0, err
	}
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	tests, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{Files: files})
	if err != nil {
		return 0, err
	}
	for {
		var status syscall.WaitStatus
		switch pid, err := syscall.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for the tests: %w", err)
		case pid == tests.Pid && status.Signaled():
			return 0, fmt.Errorf("the tests were ended by %s", status.Signal())
		case pid == tests.Pid:
			return status.ExitStatus(), nil
		}
	}
}

func prepare() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// Where `ip netns` keeps its names: outside they would outlive a test that is killed.
	if err := os.MkdirAll(netnsNames, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", netnsNames, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount %s: %w", netnsNames, err)
	}
	return nil
}

func refuse(why any) int {
	fmt.Fprintln(os.Stderr, why)
	return 1
}
