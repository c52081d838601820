package ports

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/door"
	"github.com/berth-dev/berth/machine/internal/ports/proxy"
	"github.com/berth-dev/berth/machine/internal/ports/question"
	"github.com/berth-dev/berth/machine/internal/rlimit"
)

// Serve runs portd until the context ends. Then it waits for open requests, up to the drain limit.
func Serve(ctx context.Context, config Config, log *slog.Logger) error {
	bounds, err := boundsHere()
	if err != nil {
		return err
	}
	certificates, err := openCertificates(config, log)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", config.Listen)
	if err != nil {
		return err
	}
	pool := proxy.NewPool()
	link := question.NewLink(question.Options{Socket: config.Socket, PortHost: config.PortHost, Gone: pool.Drop, Unconfirmed: question.UnconfirmedMax, Log: log})
	// The link outlives the listener, so that open requests are still counted and can be cut.
	linked, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	go link.Run(linked)
	server := proxy.NewServer(proxy.Options{
		Names: door.NewNames(config.PortHost), Link: link, Pool: pool, Scheme: config.PublicScheme, Certificates: certificates, Trusted: config.TrustedProxies, Log: log,
		Times: proxy.DefaultTimes, Bounds: bounds,
	})
	log.Info("portd serves", "listen", listener.Addr().String(), "port_host", config.PortHost, "tls", certificates != nil)
	err = server.Serve(ctx, listener, time.Duration(config.DrainSeconds)*time.Second)
	link.Flush()
	return err
}

// boundsHere reduces the limits if this process may not open enough files.
func boundsHere() (proxy.Bounds, error) {
	debug.SetMemoryLimit(proxy.MemoryMax)
	if err := rlimit.RaiseOpenFiles(uint64(proxy.DefaultBounds.Files())); err != nil {
		return proxy.Bounds{}, err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return proxy.Bounds{}, err
	}
	return proxy.DefaultBounds.Within(limit.Cur), nil
}

func openCertificates(config Config, log *slog.Logger) (*proxy.Certificates, error) {
	if config.Certificate == "" {
		return nil, nil
	}
	return proxy.OpenCertificates(config.Certificate, config.Key, log)
}

var errUsage = errors.New("usage: portd --config FILE")

func Main(arguments []string) error {
	flags := flag.NewFlagSet("portd", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	path := flags.String("config", "", "")
	if flags.Parse(arguments) != nil || *path == "" || flags.NArg() > 0 {
		return errUsage
	}
	config, err := ReadConfig(*path)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return Serve(ctx, config, slog.New(slog.NewTextHandler(os.Stderr, nil)))
}
