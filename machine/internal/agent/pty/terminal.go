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
	grace = 5 * time.Second
	// More than the kernel buffers.
	drainBytesMax = 1 << 20
	readBytes     = 4 << 10
)

// Terminal exists from the moment its id is reserved.
type Terminal struct {
	dir         string
	fingerprint string
	notice      output.Notice
	stream      *output.Stream
	ready       chan struct{} // closed once the start has succeeded or failed
	startErr    error         // reason of a failed start; read it after ready
	writing     chan struct{} // semaphore of one writer
	left        chan unix.WaitStatus

	mu      sync.Mutex
	record  wire.PtyRecord
	log     *os.File
	device  *device // nil: not running
	leader  int     // pid as the agent sees it
	closing bool    // SIGHUP was sent, SIGKILL follows
	kill    *time.Timer
}

func newTerminal(dir string) *Terminal {
	return &Terminal{dir: dir, ready: make(chan struct{}), writing: make(chan struct{}, 1), left: make(chan unix.WaitStatus, 1)}
}

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

// started writes nothing to the disk, because a later boot needs only the record's first line.
func (t *Terminal) started(d *device, pid, guestPID int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.record.State = record.Running
	t.record.PID = &guestPID
	t.device, t.leader = d, pid
}

func (t *Terminal) leaderExited(d *device, status unix.WaitStatus) {
	t.left <- status
	_ = d.master.SetReadDeadline(time.Now()) // wakes run; fails harmlessly on a closed file
}

func (t *Terminal) run(d *device, kept func(grown int64)) {
	buffer := make([]byte, readBytes)
	sink := func(p []byte) {
		// The error is ignored, because the stream reports refused bytes to readers.
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
	t.notice.Wake() // wake waiters before the disk write
	// On a full disk this line is missing, and a later boot reports the terminal as lost.
	_ = record.Append(t.log, entry{Fingerprint: t.fingerprint, Record: t.Record()})
	t.log.Close()
}

// Close sends SIGHUP to the session, and SIGKILL after the grace.
func (t *Terminal) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.device == nil || t.closing {
		return
	}
	t.closing = true
	leader := t.leader
	// Stopped jobs receive the SIGHUP only after SIGCONT.
	signalSession(leader, unix.SIGHUP, unix.SIGCONT)
	t.kill = time.AfterFunc(grace, func() { signalSession(leader, unix.SIGKILL) })
}

// Resize changes the size. Programs of the terminal then receive SIGWINCH.
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

// Write blocks until ctx ends if the program does not read.
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
			<-expired // otherwise the deadline would end the next writer's write
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
