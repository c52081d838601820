// Command hostd is Berth's only root process besides the supervisor. machine/internal/wire/hostd.go has its calls.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/berth-dev/berth/machine/internal/hostd"
	"github.com/berth-dev/berth/machine/internal/layerscan"
	"github.com/berth-dev/berth/machine/internal/resolver"
	"github.com/berth-dev/berth/machine/internal/rlimit"
	"github.com/berth-dev/berth/machine/internal/secretproxy"
)

const usage = `usage: hostd --config FILE [--enable-failpoints]
       hostd clean --config FILE
       hostd --list-failpoints`

// The main thread must stay in hostd's own namespaces, because /proc/self shows them. Other threads enter others.
func init() { runtime.LockOSThread() }

func main() {
	ended := make(chan error)
	go func() { ended <- run(os.Args[1:]) }()
	if err := <-ended; err != nil {
		fmt.Fprintln(os.Stderr, "hostd:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	clean := len(args) > 0 && (args[0] == "clean" || args[0] == cleanInside)
	command := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		command, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("hostd", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprintln(os.Stderr, usage) }
	path := flags.String("config", "", "")
	failpoints := flags.Bool("enable-failpoints", false, "")
	list := flags.Bool("list-failpoints", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *list:
		fmt.Println(strings.Join(hostd.FailpointNames, "\n"))
		return nil
	case command == hostd.HoldCommand:
		return hostd.Hold()
	case command == resolver.Command:
		return resolver.Run()
	case command == layerscan.Command:
		return layerscan.Run()
	case command == secretproxy.Command:
		return secretproxy.Run()
	case command != "" && !clean, *path == "", flags.NArg() > 0:
		return errors.New(usage)
	}
	config, err := readConfig(*path, *failpoints)
	if err != nil {
		return err
	}
	switch command {
	case "clean":
		return cleanUp(config, *path)
	case cleanInside:
		return cleanFromInside(config)
	}
	return serve(config, *failpoints)
}

func readConfig(path string, enabled bool) (hostd.Config, error) {
	config, err := hostd.ReadConfig(path)
	if err != nil {
		return config, err
	}
	if text := os.Getenv(hostd.FailpointVariable); text != "" {
		if config.Failpoints, err = hostd.ParseFailpoints(text); err != nil {
			return config, err
		}
	}
	if len(config.Failpoints) > 0 && !enabled {
		return config, errors.New("failpoints are set, and this is not a test: --enable-failpoints is missing")
	}
	return config, nil
}

func serve(config hostd.Config, failpoints bool) error {
	if err := os.MkdirAll(config.RunDir, 0o711); err != nil {
		return err
	}
	if err := hostd.EnterMountNamespace(config.RunDir); err != nil {
		return err
	}
	lock, err := hostd.Lock(config.RunDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := errors.Join(rlimit.RaiseOpenFiles(openFiles), rlimit.NoCoreFiles()); err != nil {
		return err
	}
	host, err := hostd.Open(ctx, config, log, failpoints)
	if err != nil {
		return err
	}
	listener, err := host.Listen()
	if err != nil {
		return err
	}
	log.Info("hostd serves", "socket", config.Socket)
	return host.Serve(ctx, listener)
}

// gVisor recommends this limit: a sandbox inherits it and opens a host file for each file that its guest opens.
const openFiles = 1 << 20

const cleanInside = "clean-inside"

func cleanUp(config hostd.Config, path string) error {
	inside := exec.Command("/proc/self/exe", cleanInside, "--config", path)
	inside.Stdout, inside.Stderr = os.Stdout, os.Stderr
	if err := os.MkdirAll(config.RunDir, 0o711); err != nil {
		return err
	}
	if err := inside.Run(); err != nil {
		return fmt.Errorf("cleaning: %w", err)
	}
	return hostd.Unpin(config.RunDir)
}

func cleanFromInside(config hostd.Config) error {
	if err := hostd.EnterMountNamespace(config.RunDir); err != nil {
		return err
	}
	lock, err := hostd.Lock(config.RunDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	return hostd.Clean(context.Background(), config, slog.New(slog.NewTextHandler(os.Stderr, nil)))
}
