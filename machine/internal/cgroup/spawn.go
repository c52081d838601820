package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Spawner lets the calling goroutine start processes that are born in the group. Add after the start costs 3 ms on v1 (each
// controller waits for all CPUs), and races: a runsc that already stands in its machine's group would be pulled out of it, with
// the sandbox it forks next.
//
// The goroutine must be locked to its thread and stay so: on v1 that thread itself moves into the group. Call it after
// the process was placed (Service().Add), which moves all threads. Run prepare on every command before its start.
func (g *Group) Spawner() (prepare func(*exec.Cmd), err error) {
	if _, one := g.v.(*versionOne); one {
		return func(*exec.Cmd) {}, g.moveThread()
	}
	dir, err := os.Open(g.v.dirs(g.path)[0])
	if err != nil {
		return nil, err
	}
	return func(command *exec.Cmd) {
		if command.SysProcAttr == nil {
			command.SysProcAttr = &syscall.SysProcAttr{}
		}
		command.SysProcAttr.UseCgroupFD, command.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}, nil
}

func (g *Group) moveThread() error {
	for _, dir := range g.v.dirs(g.path) {
		err := write(filepath.Join(dir, "tasks"), strconv.Itoa(unix.Gettid()))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("move a thread to cgroup %s: %w", g.path, err)
		}
	}
	return nil
}
