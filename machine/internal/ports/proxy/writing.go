package proxy

import (
	"bufio"
	"strconv"

	"github.com/berth-dev/berth/machine/internal/ports/httpwire"
)

// Single writes need no check, because a bufio.Writer stores its first error and returns it from Flush.

func writeFields(to *bufio.Writer, fields httpwire.Fields) {
	for i := range fields {
		writeField(to, fields[i].Name, fields[i].Value)
	}
}

func writeField(to *bufio.Writer, name, value string) {
	_, _ = to.WriteString(name)
	_, _ = to.WriteString(": ")
	_, _ = to.WriteString(value)
	_, _ = to.WriteString("\r\n")
}

func writeLength(to *bufio.Writer, length int64) {
	writeField(to, "Content-Length", strconv.FormatInt(length, 10))
}

func writeFraming(to *bufio.Writer, framing httpwire.Framing) {
	switch framing.Kind {
	case httpwire.FixedBody:
		writeLength(to, framing.Length)
	case httpwire.ChunkedBody:
		writeField(to, "Transfer-Encoding", "chunked")
	}
}

type framed struct {
	*bufio.Writer
	chunked bool
}

func (f *framed) Write(p []byte) (int, error) {
	if !f.chunked {
		return f.Writer.Write(p)
	}
	var line [20]byte
	head := strconv.AppendInt(line[:0], int64(len(p)), 16)
	_, _ = f.Writer.Write(append(head, '\r', '\n'))
	_, _ = f.Writer.Write(p)
	_, err := f.Writer.WriteString("\r\n")
	return len(p), err
}

func (f *framed) flush() error { return f.Writer.Flush() }

func (f *framed) end(trailers httpwire.Fields) error {
	if f.chunked {
		_, _ = f.WriteString("0\r\n")
		writeFields(f.Writer, trailers)
		_, _ = f.WriteString("\r\n")
	}
	return f.Flush()
}
