// Package treefiles transfers trees to and from directories that a guest could write. It resolves only single names,
// and never follows a link.
package treefiles

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// A path and a link's target have at most a page each, and up to six JSON characters per byte.
const lineBytesMax = 64 << 10

// StreamBytes is the buffer size for a stream of entries.
const StreamBytes = 256 << 10

func ReadLine(from *bufio.Reader, into any) error {
	line, err := from.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("the stream ended in the middle: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	if len(line) > lineBytesMax {
		return errors.New("a line of the stream is too long")
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

func writeEntry(to io.Writer, entry wire.TreeEntry) error {
	line, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	_, err = to.Write(append(line, '\n'))
	return err
}
