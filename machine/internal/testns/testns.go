// Package testns runs tests in their own namespaces, because they mount, start sandboxes and set rules for real. The
// kernel ends processes and mounts when the first process ends. The outer process removes files and cgroups, which one
// folder contains or records.
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
	asInit     = "init" // the first process of the namespaces: it prepares them, starts the tests and reaps processes
	asTests    = "tests"
	netnsNames = "/run/netns"
)

// Finish is called inside the namespaces after the tests.
var Finish func() error

// Run is m.Run in new mount and PID namespaces, and in those of `also` (CLONE_NEW… flags). A failing check ends the run
// before the tests.
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
		_ = again.Process.Kill() // fails if the process has ended by itself
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
	// The directory is a temporary mount, because names of `ip netns` would outlive a killed test.
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
