package output

import (
	"encoding/binary"
	"io"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// FrameWriter writes the frames of wire/agent.go. Its buffer holds one frame, whatever the stream's size.
type FrameWriter struct {
	w      io.Writer
	buffer [wire.FrameHeader + wire.FrameDataMax]byte
}

func NewFrameWriter(w io.Writer) *FrameWriter { return &FrameWriter{w: w} }

// Room is where the data of the next frame may be read into, so that it is not copied.
func (f *FrameWriter) Room() []byte { return f.buffer[wire.FrameHeader:] }

// Send writes a frame of the first n bytes of Room.
func (f *FrameWriter) Send(kind byte, offset int64, n int) error {
	h := f.buffer[:wire.FrameHeader]
	h[0], h[1], h[2], h[3] = kind, 0, 0, 0
	binary.BigEndian.PutUint32(h[4:], uint32(n))
	binary.BigEndian.PutUint64(h[8:], uint64(offset))
	_, err := f.w.Write(f.buffer[:wire.FrameHeader+n])
	return err
}

// SendData writes a frame of its own data, FrameDataMax at most.
func (f *FrameWriter) SendData(kind byte, data []byte) error {
	return f.Send(kind, 0, copy(f.Room(), data))
}
