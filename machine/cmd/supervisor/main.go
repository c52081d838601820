// Command supervisor restarts the processes of one installation: `supervisor --data-dir D -- COMMAND…`. COMMAND
// prepares the installation and prints the configuration.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/cgroup"
	"github.com/berth-dev/berth/machine/internal/rlimit"
	"github.com/berth-dev/berth/machine/internal/supervisor"
)

const (
	prepareMax  = 10 * time.Minute
	exitRunning = 3
	openFiles   = 65_536 // api and cell hold thousands of streams, and inherit this limit
)

// The kernel drops a parent death signal when the thread that requested it ends. So the requesting thread must live as
// long as the process.
func init() { runtime.LockOSThread() }

func main() {
	dataDir := flag.String("data-dir", "", "the data directory; one supervisor each")
	withParent := flag.Bool("end-with-parent", false, "end, as by SIGTERM, when the process that started this one does")
	flag.Parse()
	err := run(*dataDir, *withParent, flag.Args())
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	if errors.Is(err, supervisor.ErrRunning) {
		os.Exit(exitRunning)
	}
	os.Exit(1)
}

func run(dataDir string, withParent bool, prepare []string) error {
	if dataDir == "" || len(prepare) == 0 {
		return errors.New("usage: supervisor --data-dir D -- COMMAND…")
	}
	// A closed terminal or pipe must not end the service. SIGPIPE is caught, because children inherit an ignored
	// signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ends := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores SIGHUP, because its service must outlive the terminal
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	if withParent {
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0); err != nil {
			return err
		}
	}
	lock, err := supervisor.Lock(dataDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	config, err := prepareConfig(ctx, prepare)
	if err != nil {
		return err
	}
	if err := supervisor.BecomeReaper(); err != nil {
		return err
	}
	if err := rlimit.RaiseOpenFiles(openFiles); err != nil {
		return err
	}
	if err := joinService(config.Instance); err != nil {
		return err
	}
	if err := supervisor.Protect(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return supervisor.Run(ctx, config, os.Stdout)
}

// joinService runs before any child starts, so that all children inherit the group's CPU weight.
func joinService(instance string) error {
	tree, err := cgroup.Open(instance)
	if err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	if err := tree.Service().Add(os.Getpid()); err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	return nil
}

func prepareConfig(ctx context.Context, argv []string) (supervisor.Config, error) {
	ctx, cancel := context.WithTimeout(ctx, prepareMax)
	defer cancel()
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, os.Stderr
	if err := command.Run(); err != nil {
		return supervisor.Config{}, fmt.Errorf("preparing failed: %w", err)
	}
	return supervisor.ReadConfig(output.Bytes())
}
