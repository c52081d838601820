// Command portd serves the ports of workspaces to whoever has a right to them. It has no right of its own on this computer but to speak
// to the cell, which knows what may be served and where that is.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/berth-dev/berth/machine/internal/ports"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "portd:", err)
		os.Exit(1)
	}
}

func run() error {
	path := flag.String("config", "", "")
	flag.Parse()
	if *path == "" || flag.NArg() > 0 {
		return fmt.Errorf("usage: portd --config FILE")
	}
	config, err := ports.ReadConfig(*path)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return ports.Serve(ctx, config, slog.New(slog.NewTextHandler(os.Stderr, nil)))
}
