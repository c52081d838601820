package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/berth-dev/berth/machine/internal/rlimit"
)

// Run starts all children. It returns when the context and then the children have ended, or when a start fails.
func Run(ctx context.Context, config Config, out io.Writer) error {
	report := func(line string) { fmt.Fprintln(out, line) }
	if err := rlimit.NoCoreFiles(); err != nil { // children inherit the limit
		return err
	}
	for _, dir := range []string{config.RunDir, config.LogDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, mount := range config.Mounts {
		if err := mount.mount(); err != nil {
			return err
		}
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	go reapForever(background)
	go boundLogs(background, config, report)
	if config.ShowLogs {
		showing, end := context.WithCancel(background)
		shown := showLogs(showing, config, out)
		defer func() { end(); shown() }()
	}
	tree := &tree{config: config, report: report}
	err := tree.start(ctx)
	if err == nil {
		announce(config, out)
		tell(daemon.SdNotifyReady, report)
		<-ctx.Done()
		tell(daemon.SdNotifyStopping, report)
		report("stopping; machines keep running")
	}
	tree.stop()
	for _, mount := range config.Mounts {
		err = errors.Join(err, mount.unmount())
	}
	if errors.Is(err, context.Canceled) {
		return nil // the context ended before everything was ready
	}
	return err
}

func tell(state string, report func(string)) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		report("systemd cannot be told: " + err.Error())
	}
}

type tree struct {
	config Config
	report func(string)
	stages []*stage
}

type stage struct {
	cancel  context.CancelFunc
	keepers []*keeper
}

func (t *tree) start(ctx context.Context) error {
	for _, number := range t.numbers() {
		if err := t.startStage(ctx, number); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (t *tree) numbers() []int {
	var numbers []int
	for _, child := range t.config.Children {
		numbers = append(numbers, child.Stage)
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

func (t *tree) startStage(ctx context.Context, number int) error {
	// The stage does not end with ctx, because it must end only after the later stages.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	current := &stage{cancel: cancel}
	t.stages = append(t.stages, current)
	failures := make(chan error, len(t.config.Children))
	var waiting sync.WaitGroup
	for _, child := range t.config.Children {
		if child.Stage != number {
			continue
		}
		k := newKeeper(t.config, child, t.report)
		if child.Once {
			waiting.Go(func() { failures <- k.runOnce(ctx) })
			continue
		}
		current.keepers = append(current.keepers, k)
		go k.run(running)
		waiting.Go(func() { failures <- k.becomesReady(ctx) })
	}
	waiting.Wait()
	close(failures)
	var all []error
	for err := range failures {
		all = append(all, err)
	}
	return errors.Join(all...)
}

func (k *keeper) becomesReady(ctx context.Context) error {
	limit := time.NewTimer(time.Duration(k.child.StartSeconds) * time.Second)
	defer limit.Stop()
	select {
	case err := <-k.ready:
		return err
	case <-limit.C:
		return k.failure(fmt.Errorf("was not ready in %d s", k.child.StartSeconds))
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *tree) stop() {
	for _, current := range slices.Backward(t.stages) {
		current.cancel()
		for _, k := range current.keepers {
			<-k.gone
		}
	}
}

func reapForever(ctx context.Context) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for {
		reap()
		select {
		case <-ended:
		case <-ctx.Done():
			return
		}
	}
}

// announce removes the file after printing it, because the file may contain a key.
func announce(config Config, out io.Writer) {
	path := config.Announcement
	if path == "" || !filepath.IsAbs(path) {
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return // without the file there is nothing to announce
	}
	out.Write(text)
	os.Remove(path)
}
