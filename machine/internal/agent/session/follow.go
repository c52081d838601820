package session

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/output"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// HeartbeatEvery is the longest pause between frames.
const HeartbeatEvery = 15 * time.Second

// Follower sends a command's output to one reader, at the reader's pace.
type Follower struct {
	session *Session
	frames  *output.FrameWriter
	flush   func() error
	readers [2]*output.Reader
	unsent  bool
}

func NewFollower(s *Session, frames *output.FrameWriter, flush func() error, stdout, stderr int64) (*Follower, error) {
	r := s.Record()
	if stdout < 0 || stderr < 0 || stdout > r.StdoutBytes || stderr > r.StderrBytes {
		return nil, fail.BadRequest("offset_beyond_end", "The offset lies beyond what was written").
			With("stdout_bytes", r.StdoutBytes).With("stderr_bytes", r.StderrBytes)
	}
	// unsent is true, so that the first flush sends the response header together with available output.
	return &Follower{session: s, frames: frames, flush: flush, unsent: true,
		readers: [2]*output.Reader{s.stdout.NewReader(stdout), s.stderr.NewReader(stderr)}}, nil
}

// Run sends output until the exit frame, or without follow until the current end. The last frame is not flushed, so
// that it shares a packet with the end of the response.
func (f *Follower) Run(ctx context.Context, follow bool) error {
	defer f.readers[0].Close()
	defer f.readers[1].Close()
	beat := time.NewTimer(HeartbeatEvery)
	defer beat.Stop()
	for {
		// Next is called before the read, as Notice requires.
		changed := f.session.notice.Next()
		running := f.session.running()
		if err := f.sendAvailable(); err != nil {
			return f.sendError(err)
		}
		if !running {
			return f.sendExit()
		}
		if err := f.flushUnsent(beat); err != nil || !follow {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-beat.C:
			if err := f.frames.Send(wire.FrameHeartbeat, 0, 0); err != nil {
				return err
			}
			f.unsent = true
		}
	}
}

func (f *Follower) sendAvailable() error {
	for more := true; more; {
		more = false
		for i, r := range f.readers {
			if !r.Pending() {
				continue
			}
			at := r.Offset()
			n, err := r.Read(f.frames.Buffer())
			if err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			if err := f.frames.Send(byte(wire.FrameStdout+i), at, n); err != nil {
				return sendFailed{err}
			}
			more, f.unsent = true, true
		}
	}
	return nil
}

// sendFailed means that a write failed, so no error frame can be sent.
type sendFailed struct{ error }

func (f *Follower) flushUnsent(beat *time.Timer) error {
	if !f.unsent {
		return nil
	}
	f.unsent = false
	beat.Reset(HeartbeatEvery)
	return f.flush()
}

func (f *Follower) sendError(err error) error {
	var gone sendFailed
	if errors.As(err, &gone) {
		return gone.error
	}
	refusal := fail.From(err)
	if errors.Is(err, output.ErrExpired) {
		refusal = f.expired()
	}
	data, err := json.Marshal(refusal.AgentError)
	if err != nil {
		return err
	}
	return f.frames.SendData(wire.FrameError, data)
}

func (f *Follower) expired() *fail.Error {
	name, stream := "stdout", f.session.stdout
	if first, _ := stream.Range(); f.readers[0].Offset() >= first {
		name, stream = "stderr", f.session.stderr
	}
	first, _ := stream.Range()
	return fail.Conflict("output_expired", "The output at this offset is no longer retained").
		With("stream", name).With("available_from", first)
}

func (f *Follower) sendExit() error {
	r := f.session.Record()
	data, err := json.Marshal(r)
	if err == nil && len(data) > wire.FrameDataMax {
		// The record exceeds a frame with its arguments, which the status call returns.
		r.Argv = nil
		data, err = json.Marshal(r)
	}
	if err != nil {
		return err
	}
	return f.frames.SendData(wire.FrameExit, data)
}
