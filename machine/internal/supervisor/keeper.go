package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
)

const (
	backoffMin     = 200 * time.Millisecond
	backoffMax     = 2 * time.Second // a killed service must serve again within five seconds
	failedStarts   = 3               // a start fails after this many deaths before the first readiness
	failingFor     = 8 * time.Second // and after this time: a killed predecessor that is not reaped yet prevents PostgreSQL's start
	waitForever    = 24 * time.Hour
	killedEndsIn   = 30 * time.Second
	replacedBySelf = "another version of it was running"
)

type keeper struct {
	config Config
	child  Child
	report func(string)

	started time.Time
	deaths  int
	isReady bool
	ready   chan error // gets one value: nil at the first readiness, or why the child failed
	gone    chan struct{}
}

func newKeeper(config Config, child Child, report func(string)) *keeper {
	return &keeper{config: config, child: child, report: report, ready: make(chan error, 1), gone: make(chan struct{})}
}

func (k *keeper) run(ctx context.Context) {
	defer close(k.gone)
	k.started = time.Now()
	var pause time.Duration
	for ctx.Err() == nil {
		var served time.Duration
		current, err := k.next()
		if err == nil {
			served, err = k.watch(ctx, current)
		}
		if ctx.Err() != nil {
			return
		}
		if !k.isReady && k.gaveUp(err) {
			return
		}
		pause = pauseAfter(pause, served)
		k.report(fmt.Sprintf("%s %s; it is started again in %.1f s", k.child.Name, err, pause.Seconds()))
		sleep(ctx, pause)
	}
}

// pauseAfter resets the pause only after the child served for the longest pause. So a child that dies soon after it
// serves is not restarted more often than one that never serves.
func pauseAfter(pause, served time.Duration) time.Duration {
	if pause == 0 || served >= backoffMax {
		return backoffMin
	}
	return min(2*pause, backoffMax)
}

func (k *keeper) next() (*process, error) {
	found, err := adopt(k.config, k.child)
	if err != nil {
		return nil, err
	}
	if found != nil && found.Fingerprint == k.child.fingerprint() {
		return found, nil
	}
	if found != nil {
		k.end(found)
	}
	env := k.child.Env
	if k.deaths == 0 {
		env = append(slices.Clone(env), k.child.FirstEnv...)
	}
	return start(k.config, k.child, env)
}

func (k *keeper) watch(ctx context.Context, current *process) (served time.Duration, err error) {
	defer current.close()
	dead := make(chan struct{})
	go func() {
		for !current.wait(waitForever) {
		}
		close(dead)
	}()
	ready := make(chan struct{})
	probing, stop := context.WithCancel(ctx)
	defer stop()
	go k.probe(probing, ready)
	var since time.Time
	for {
		select {
		case <-ready:
			k.announceReady()
			ready, since = nil, time.Now()
		case <-dead:
			k.deaths++
			if !since.IsZero() {
				served = time.Since(since)
			}
			return served, errors.New(current.ended())
		case <-ctx.Done():
			k.stop(current)
			<-dead
			return 0, ctx.Err()
		}
	}
}

func (k *keeper) probe(ctx context.Context, ready chan<- struct{}) {
	for ctx.Err() == nil {
		if k.child.Ready.isReady(ctx) {
			close(ready)
			return
		}
		sleep(ctx, readyProbeEvery)
	}
}

func (k *keeper) announceReady() {
	if k.isReady {
		k.report(k.child.Name + " serves again")
		return
	}
	k.isReady = true
	k.report(fmt.Sprintf("%s is ready (%.1f s)", k.child.Name, time.Since(k.started).Seconds()))
	k.ready <- nil
}

// gaveUp ends a first start that fails, because a person waits for it. The log has the reason.
func (k *keeper) gaveUp(err error) bool {
	late := time.Since(k.started) > time.Duration(k.child.StartSeconds)*time.Second
	early := k.deaths < failedStarts || time.Since(k.started) < failingFor
	if early && !late {
		return false
	}
	k.ready <- k.failure(err)
	return true
}

func (k *keeper) failure(err error) error {
	return fmt.Errorf("%s did not start: it %w. The end of %s:\n%s", k.child.Name, err, logPath(k.config.LogDir, k.child.Name), tail(k.config.LogDir, k.child.Name))
}

func (k *keeper) runOnce(ctx context.Context) error {
	k.started = time.Now()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(k.child.StartSeconds)*time.Second)
	defer cancel()
	left, err := adopt(k.config, k.child)
	if err != nil {
		return err
	}
	if left != nil {
		k.end(left) // its progress is unknown; it is run again from the start, which every Once child must permit
		left.close()
	}
	current, err := start(k.config, k.child, append(slices.Clone(k.child.Env), k.child.FirstEnv...))
	if err != nil {
		return err
	}
	defer current.close()
	dead := make(chan struct{})
	go func() {
		for !current.wait(waitForever) {
		}
		close(dead)
	}()
	select {
	case <-dead:
	case <-ctx.Done():
		k.stop(current)
		return k.failure(errors.New("did not finish in time"))
	}
	if status, known := exits.take(current.PID); !known || status.ExitStatus() != 0 {
		return k.failure(errors.New(describe(status, known)))
	}
	k.report(fmt.Sprintf("%s is done (%.1f s)", k.child.Name, time.Since(k.started).Seconds()))
	return nil
}

func (k *keeper) end(found *process) {
	k.report(fmt.Sprintf("%s is replaced: %s", k.child.Name, replacedBySelf))
	k.stop(found)
}

func (k *keeper) stop(current *process) {
	if err := current.signal(k.child.stopSignal()); err != nil {
		k.report(fmt.Sprintf("%s cannot be told to end: %v", k.child.Name, err))
	}
	if current.wait(time.Duration(k.child.StopSeconds) * time.Second) {
		return
	}
	k.report(fmt.Sprintf("%s did not end in %d s and is killed", k.child.Name, k.child.StopSeconds))
	if err := current.signal(syscall.SIGKILL); err != nil {
		k.report(fmt.Sprintf("%s cannot be killed: %v", k.child.Name, err))
	}
	current.wait(killedEndsIn)
}

func sleep(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
