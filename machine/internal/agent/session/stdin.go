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
	// stdinWaitMax is how long bytes wait for a command that reads nothing.
	stdinWaitMax = 10 * time.Second
	// stdinPieceMax is written at once. The offset that others see is behind by one piece at most.
	stdinPieceMax = 64 << 10
)

// stdin is what a command reads, where it was started with it open. Bytes go into its pipe and nowhere else: the agent keeps none, and
// the offset says how many the pipe has taken.
type stdin struct {
	turn chan struct{} // holds one while somebody writes

	mu     sync.Mutex
	pipe   *os.File
	offset int64
	closed bool
}

func openStdin(fd int) *stdin {
	// A failure here falls back to a blocking descriptor, which only costs a thread.
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
		in.pipe.Close() // ends a write that waits
	}
}

// Take writes data, whose first byte has the offset, and closes after it where it is the last. Bytes below the offset that was reached
// are there already. Where the command does not read, a part is taken or nothing: the answer says how far it came.
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
			return nil // a repeat of what was taken before the end
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

// write is for whoever has the turn. nil, although there is a rest: the time is over.
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
		_ = in.pipe.SetWriteDeadline(time.Time{}) // it is closed
	}()
	for len(data) > 0 {
		n, err := in.pipe.Write(data[:min(len(data), stdinPieceMax)])
		in.wrote(n)
		data = data[n:]
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			in.close() // the command has closed its end, or has ended
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

// feed writes what came with the start, in the background: a command may begin to read late.
func (in *stdin) feed(data []byte) {
	in.turn <- struct{}{}
	go func() {
		_ = in.write(context.Background(), data) // the command did not want it all: the offset says so
		<-in.turn
	}()
}
