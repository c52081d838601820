package proxy

import (
	"errors"
	"io"
	"sync"

	"github.com/berth-dev/berth/machine/internal/ports/httpwire"
)

const pieceBytes = 32 << 10

var pieces = sync.Pool{New: func() any { return new([pieceBytes]byte) }}

type source interface {
	io.Reader
	Ended() bool
	Waiting() bool
	Await() error
	Trailers() httpwire.Fields
}

type sink interface {
	io.Writer
	flush() error
}

// pump copies a stream. While the source is silent, everything is flushed and no buffer is in use.
func pump(from source, to sink) (readErr, writeErr error) {
	hot := false
	for {
		if from.Waiting() {
			if err := to.flush(); err != nil {
				return nil, err
			}
			if !hot && from.Await() == nil {
				continue // the new bytes may not be enough for a read
			}
		}
		piece := pieces.Get().(*[pieceBytes]byte)
		n, err := from.Read(piece[:])
		if n > 0 {
			_, writeErr = to.Write(piece[:n])
		}
		hot = n == pieceBytes
		pieces.Put(piece)
		if writeErr != nil {
			return nil, writeErr
		}
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return err, nil
		}
	}
}
