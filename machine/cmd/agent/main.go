// The agent is a machine's first process. It starts every command of the guest.
package main

import (
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/guest"
	"github.com/berth-dev/berth/machine/internal/agent/readdisk"
	"github.com/berth-dev/berth/machine/internal/agent/reap"
	"github.com/berth-dev/berth/machine/internal/agent/rehearse"
	"github.com/berth-dev/berth/machine/internal/agent/server"
	"github.com/berth-dev/berth/machine/internal/agent/spawn"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	if len(args) > 0 && args[0] == "spawner" {
		return spawn.ServeSpawner(args[1:])
	}
	if len(args) == 1 && args[0] == "read-disk" {
		return readdisk.Serve()
	}
	if len(args) != 0 {
		return fmt.Errorf("usage: agent [read-disk]")
	}
	return serve()
}

func serve() error {
	debug.SetMemoryLimit(64 << 20)
	// This memory contains keys.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl: %w", err)
	}
	listener, err := server.Listen(fmt.Sprintf("0.0.0.0:%d", wire.AgentPort))
	if err != nil {
		return err
	}
	reaper := reap.New()
	g, err := guest.New("/agent", spawn.Layout{ClaimRoot: "/claim/root", State: "/claim/state", Volumes: "/volumes"}, reaper)
	if err != nil {
		return err
	}
	time.AfterFunc(rehearse.Quiet, rehearse.Text)
	paths := server.Paths{Incarnations: "/inc", ClaimRoot: "/claim/root", ClaimState: "/claim/state", Layers: "/layers"}
	return server.Serve(listener, paths, g, reaper)
}
