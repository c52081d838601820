package session

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	// How long a write waits for a command that does not read.
	stdinWaitMax = 10 * time.Second
	// Bytes are written in pieces, so that the visible offset lags by at most one piece.
	stdinPieceMax = 64 << 10
)

// stdin buffers nothing: offset is the number of bytes that were written to the pipe.
type stdin struct {
	turn chan struct{} // semaphore of one writer

	mu     sync.Mutex
	pipe   *os.File
	offset int64
	closed bool
}

func openStdin(fd int) *stdin {
	// The error is ignored, because a blocking descriptor costs only a thread.
	_ = unix.SetNonblock(fd, true)
	return &stdin{turn: make(chan struct{}, 1), pipe: os.NewFile(uintptr(fd), "stdin")}
}

func (in *stdin) state() wire.Stdin {
	in.mu.Lock()
	defer in.mu.Unlock()
	return wire.Stdin{Offset: in.offset, Open: !in.closed}
}

func (in *stdin) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.closed {
		in.closed = true
		in.pipe.Close() // ends a pending write
	}
}

// Take writes data at offset, and skips bytes below the current offset as repeats. If the command does not read,
// only a part may be written; the result has the offset reached.
func (s *Session) Take(ctx context.Context, offset int64, data []byte, last bool) (wire.Stdin, error) {
	in := s.stdin
	if in == nil {
		return wire.Stdin{}, stdinClosed(wire.Stdin{})
	}
	ctx, cancel := context.WithTimeout(ctx, stdinWaitMax)
	defer cancel()
	err := in.take(ctx, offset, data, last)
	return in.state(), err
}

func (in *stdin) take(ctx context.Context, offset int64, data []byte, last bool) error {
	select {
	case in.turn <- struct{}{}:
		defer func() { <-in.turn }()
	case <-ctx.Done():
		return nil
	}
	at := in.state()
	if !at.Open {
		if offset+int64(len(data)) <= at.Offset {
			return nil // a repeat of bytes that were written before the close
		}
		return stdinClosed(at)
	}
	if offset > at.Offset {
		return fail.Conflict("stdin_gap", "Bytes before this offset are missing").With("stdin_offset", at.Offset)
	}
	rest := data[min(at.Offset-offset, int64(len(data))):]
	if err := in.write(ctx, rest); err != nil {
		return err
	}
	if last && in.state().Offset >= offset+int64(len(data)) {
		in.close()
	}
	return nil
}

// write returns nil when ctx ends, even if bytes are left.
func (in *stdin) write(ctx context.Context, data []byte) error {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = in.pipe.SetWriteDeadline(time.Unix(1, 0))
		close(over)
	})
	defer func() {
		if !stop() {
			<-over
		}
		_ = in.pipe.SetWriteDeadline(time.Time{}) // fails harmlessly on a closed pipe
	}()
	for len(data) > 0 {
		n, err := in.pipe.Write(data[:min(len(data), stdinPieceMax)])
		in.wrote(n)
		data = data[n:]
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			in.close() // the command closed its end, or ended
			return stdinClosed(in.state())
		}
	}
	return nil
}

func (in *stdin) wrote(n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.offset += int64(n)
}

func stdinClosed(at wire.Stdin) error {
	return fail.Conflict("stdin_closed", "The command reads no stdin any more, or was started without stdin_open").
		With("stdin_offset", at.Offset)
}

// feed writes on a goroutine, because a command may start to read late.
func (in *stdin) feed(data []byte) {
	in.turn <- struct{}{}
	go func() {
		_ = in.write(context.Background(), data) // the offset shows how much was written
		<-in.turn
	}()
}
