package pty

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/output"
	"github.com/berth-dev/berth/machine/internal/agent/record"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	// grace is what programs have between SIGHUP and SIGKILL.
	grace = 5 * time.Second
	// drainBytesMax bounds what is read after the program's end: more than the kernel keeps for a terminal.
	drainBytesMax = 1 << 20
	// readBytes is the most that the kernel gives at once.
	readBytes = 4 << 10
)

// Terminal is one terminal, from the moment its id is taken.
type Terminal struct {
	dir         string
	fingerprint string
	notice      output.Notice
	stream      *output.Stream
	ready       chan struct{} // closed when the start is decided
	startErr    error         // why there is no terminal after all; read after ready
	writing     chan struct{} // holds one: input is written by one caller at a time
	left        chan unix.WaitStatus

	mu      sync.Mutex
	record  wire.PtyRecord
	log     *os.File
	device  *device // nil when nothing runs
	leader  int     // as the agent sees it
	closing bool    // SIGHUP was sent, SIGKILL follows
	kill    *time.Timer
}

func newTerminal(dir string) *Terminal {
	return &Terminal{dir: dir, ready: make(chan struct{}), writing: make(chan struct{}, 1), left: make(chan unix.WaitStatus, 1)}
}

// Record is the state as of now.
func (t *Terminal) Record() wire.PtyRecord {
	t.mu.Lock()
	r := t.record
	t.mu.Unlock()
	r.Available, r.Bytes = t.stream.Range()
	return r
}

func (t *Terminal) running() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.device != nil
}

// started makes the terminal a running one, in memory alone. The first line on disk says all that a later boot may know.
func (t *Terminal) started(d *device, pid, guestPID int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.record.State = record.Running
	t.record.PID = &guestPID
	t.device, t.leader = d, pid
}

// leaderLeft is the reaper's word: what was written is still to be read.
func (t *Terminal) leaderLeft(d *device, status unix.WaitStatus) {
	t.left <- status
	_ = d.master.SetReadDeadline(time.Now()) // wakes run; a file that is closed already needs no waking
}

// run reads the terminal until its program has ended and all that was written is kept.
func (t *Terminal) run(d *device, kept func(grown int64)) {
	buffer := make([]byte, readBytes)
	sink := func(p []byte) {
		// What the disk does not take is counted and lost; the stream says so to its readers.
		grown, _ := t.stream.Append(p)
		kept(grown)
		t.notice.Wake()
	}
	for {
		n, err := d.master.Read(buffer)
		if n > 0 {
			sink(buffer[:n])
		}
		if err != nil {
			break
		}
	}
	status := <-t.left
	d.drain(buffer, drainBytesMax, sink)
	t.finished(status)
	d.close()
}

func (t *Terminal) finished(status unix.WaitStatus) {
	t.stream.Seal()
	t.mu.Lock()
	t.device = nil
	t.record.State = record.Exited
	t.record.EndedAt = record.Stamp(time.Now())
	t.record.ExitCode, t.record.TermSignal = record.Exit(status)
	t.mu.Unlock()
	t.writeLast()
}

// failedToStart closes a terminal that never ran.
func (t *Terminal) failedToStart(why string) {
	t.mu.Lock()
	t.record.State = record.Failed
	t.record.StartedAt = nil
	t.record.EndedAt = record.Stamp(time.Now())
	t.record.Error = &why
	t.mu.Unlock()
	t.writeLast()
}

func (t *Terminal) writeLast() {
	t.notice.Wake() // before the disk: whoever waits has waited long enough
	// A disk that takes no more leaves the first line, and a later boot calls the terminal lost.
	_ = record.Append(t.log, entry{Fingerprint: t.fingerprint, Record: t.Record()})
	t.log.Close()
}

// Close hangs the terminal up: SIGHUP to its session, SIGKILL after the grace. One that has ended stays as it is.
func (t *Terminal) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.device == nil || t.closing {
		return
	}
	t.closing = true
	leader := t.leader
	// SIGCONT, or a stopped job would never hear.
	signalSession(leader, unix.SIGHUP, unix.SIGCONT)
	t.kill = time.AfterFunc(grace, func() { signalSession(leader, unix.SIGKILL) })
}

// Resize sets the window's size; the programs hear of it by SIGWINCH.
func (t *Terminal) Resize(size wire.PtySize) error {
	if size.Cols == 0 || size.Rows == 0 {
		return fail.Invalid("invalid_size", "A terminal has at least one column and one row")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.device == nil {
		return ended()
	}
	if err := t.device.resize(size); err != nil {
		return err
	}
	t.record.PtySize = size
	return nil
}

func ended() error { return fail.Conflict("session_ended", "The terminal has ended") }

// Write types p, all of it or until ctx ends: a program that reads nothing makes it wait.
func (t *Terminal) Write(ctx context.Context, p []byte) error {
	select {
	case t.writing <- struct{}{}:
		defer func() { <-t.writing }()
	case <-ctx.Done():
		return full()
	}
	t.mu.Lock()
	d := t.device
	t.mu.Unlock()
	if d == nil {
		return ended()
	}
	if err := d.master.SetWriteDeadline(time.Time{}); err != nil {
		return ended()
	}
	expired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = d.master.SetWriteDeadline(time.Now())
		close(expired)
	})
	defer func() {
		if !stop() {
			<-expired // or the deadline would fall on the next writer
		}
	}()
	_, err := d.master.Write(p)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return full()
	case !t.running():
		return ended()
	}
	return err
}

func full() error {
	return fail.RateLimited("terminal_full", "The terminal's program does not read what is typed")
}
