package httpwire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Body reads a body. It returns io.EOF at the body's end, or io.ErrUnexpectedEOF if the connection ends before.
type Body struct {
	from     *bufio.Reader
	kind     FramingKind
	left     int64 // bytes left of the body, or of the chunk
	inChunk  bool
	ended    bool
	trailers Fields
}

func NewBody(from *bufio.Reader, framing Framing) *Body {
	return &Body{from: from, kind: framing.Kind, left: framing.Length, ended: framing.Kind == NoBody}
}

// Ended reports whether the body and its trailers were read.
func (b *Body) Ended() bool { return b.ended }

func (b *Body) Trailers() Fields { return b.trailers }

// Waiting reports whether a read would block, because the buffered bytes are not enough.
func (b *Body) Waiting() bool {
	if b.ended {
		return false
	}
	if b.kind != ChunkedBody || b.left > 0 {
		return b.from.Buffered() == 0
	}
	here, _ := b.from.Peek(b.from.Buffered())
	if b.inChunk && len(here) >= 2 {
		here = here[2:]
	}
	if len(here) > 0 && here[0] == '0' { // a last chunk is complete only with its trailers
		return !bytes.Contains(here, []byte("\r\n\r\n"))
	}
	return bytes.IndexByte(here, '\n') < 0
}

// Await blocks until another byte has arrived. It uses only the connection's buffer.
func (b *Body) Await() error {
	_, err := b.from.Peek(b.from.Buffered() + 1)
	return err
}

func (b *Body) Read(p []byte) (int, error) {
	switch {
	case b.ended:
		return 0, io.EOF
	case b.kind == UntilClose:
		n, err := b.from.Read(p)
		b.ended = errors.Is(err, io.EOF)
		return n, err
	case b.kind == ChunkedBody && b.left == 0:
		if err := b.nextChunk(); err != nil {
			return 0, err
		}
	}
	return b.readPart(p)
}

func (b *Body) readPart(p []byte) (int, error) {
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if b.left == 0 && b.kind == FixedBody {
		b.ended = true
	}
	return n, unexpected(err)
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

const chunkLineMax = 256

func (b *Body) nextChunk() error {
	if b.inChunk {
		if err := b.expectLineEnd(); err != nil {
			return err
		}
		b.inChunk = false
	}
	size, err := b.readSize()
	if err != nil {
		return err
	}
	if size > 0 {
		b.left, b.inChunk = size, true
		return nil
	}
	if err := b.readTrailers(); err != nil {
		return err
	}
	b.ended = true
	return io.EOF
}

func (b *Body) expectLineEnd() error {
	for _, expected := range []byte("\r\n") {
		c, err := b.from.ReadByte()
		if err != nil {
			return unexpected(err)
		}
		if c != expected {
			return bad("A chunk is longer than it says.")
		}
	}
	return nil
}

func (b *Body) readSize() (int64, error) {
	line, err := b.from.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull) || len(line) > chunkLineMax:
		return 0, bad("The line of a chunk is too long.")
	case err != nil:
		return 0, unexpected(err)
	case len(line) < 3 || line[len(line)-2] != '\r':
		return 0, bad("The line of a chunk ends without a carriage return.")
	}
	line = line[:len(line)-2]
	digits := 0
	var size int64
	for ; digits < len(line); digits++ {
		value, ok := hexDigit(line[digits])
		if !ok {
			break
		}
		size = size<<4 | value
	}
	rest := string(line[digits:])
	if digits == 0 || digits > 15 || rest != "" && rest[0] != ';' || !isFieldValue(rest) {
		return 0, bad("The size of a chunk is no hexadecimal number.")
	}
	return size, nil
}

func hexDigit(c byte) (int64, bool) {
	switch {
	case '0' <= c && c <= '9':
		return int64(c - '0'), true
	case 'a' <= c && c <= 'f':
		return int64(c-'a') + 10, true
	case 'A' <= c && c <= 'F':
		return int64(c-'A') + 10, true
	}
	return 0, false
}

func (b *Body) readTrailers() error {
	lines, err := readHead(b.from, trailersMax, false)
	if err != nil {
		return requestProblem(unexpected(err))
	}
	b.trailers, err = parseFields(lines, FieldsMax)
	return requestProblem(err)
}
