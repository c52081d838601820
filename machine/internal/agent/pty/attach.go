package pty

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/output"
	"github.com/berth-dev/berth/machine/internal/agent/session"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func (t *Terminal) CheckOffset(offset int64) error {
	if r := t.Record(); offset < 0 || offset > r.Bytes {
		return fail.BadRequest("offset_beyond_end", "The offset lies beyond what was written").With("output_bytes", r.Bytes)
	}
	return nil
}

// Send writes output from offset on, until the exit frame or the end of ctx.
func (t *Terminal) Send(ctx context.Context, w io.Writer, offset int64) error {
	frames := output.NewFrameWriter(w)
	reader := t.stream.NewReader(offset)
	defer reader.Close()
	beat := time.NewTimer(session.HeartbeatEvery)
	defer beat.Stop()
	for {
		// Next is called before the read, as Notice requires.
		changed := t.notice.Next()
		running := t.running()
		sent, err := sendAvailable(frames, reader)
		if err != nil {
			return t.sendError(frames, err)
		}
		if !running {
			return sendJSON(frames, wire.FrameExit, t.exitRecord())
		}
		if sent {
			beat.Reset(session.HeartbeatEvery)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-beat.C:
			if err := frames.Send(wire.FrameHeartbeat, 0, 0); err != nil {
				return err
			}
			beat.Reset(session.HeartbeatEvery)
		}
	}
}

// exitRecord omits the arguments, which can exceed a frame. The status call returns them.
func (t *Terminal) exitRecord() wire.PtyRecord {
	r := t.Record()
	r.Argv = nil
	return r
}

// connectionLost means that a write failed, so no error frame can be sent.
type connectionLost struct{ error }

func sendAvailable(frames *output.FrameWriter, reader *output.Reader) (sent bool, err error) {
	for {
		at := reader.Offset()
		n, err := reader.Read(frames.Buffer())
		if err != nil || n == 0 {
			return sent, err
		}
		if err := frames.Send(wire.FrameStdout, at, n); err != nil {
			return sent, connectionLost{err}
		}
		sent = true
	}
}

func (t *Terminal) sendError(frames *output.FrameWriter, err error) error {
	var lost connectionLost
	if errors.As(err, &lost) {
		return lost.error
	}
	refusal := fail.From(err)
	if errors.Is(err, output.ErrExpired) {
		refusal = fail.Conflict("output_expired", "The output at this offset is no longer retained").
			With("available_from", t.Record().Available)
	}
	return sendJSON(frames, wire.FrameError, refusal.AgentError)
}

func sendJSON(frames *output.FrameWriter, kind byte, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return frames.SendData(kind, data)
}

// Take applies frames of the caller until the connection ends or a frame is invalid.
func (t *Terminal) Take(ctx context.Context, r io.Reader) error {
	var buffer []byte
	for {
		kind, data, err := readFrame(r, &buffer)
		if err != nil {
			return err
		}
		switch kind {
		case wire.FrameInput:
			err = t.Write(ctx, data)
		case wire.FrameResize:
			err = t.Resize(sizeOf(data))
		}
		var refused *fail.Error
		if err != nil && !errors.As(err, &refused) {
			return err
		}
	}
}

var errFrame = errors.New("pty: not a frame of an attached terminal")

// readFrame returns data that is valid until the next call. The buffer grows on demand, because most frames have one
// key.
func readFrame(r io.Reader, buffer *[]byte) (kind byte, data []byte, err error) {
	var header [wire.FrameHeader]byte
	head := header[:]
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[4:])
	switch {
	case head[0] == wire.FrameInput && length > 0 && length <= wire.FrameDataMax:
	case head[0] == wire.FrameResize && length == 4:
	default:
		return 0, nil, errFrame
	}
	if int(length) > cap(*buffer) {
		*buffer = make([]byte, length)
	}
	data = (*buffer)[:length]
	_, err = io.ReadFull(r, data)
	return head[0], data, err
}

func sizeOf(data []byte) wire.PtySize {
	return wire.PtySize{Cols: binary.BigEndian.Uint16(data), Rows: binary.BigEndian.Uint16(data[2:])}
}
