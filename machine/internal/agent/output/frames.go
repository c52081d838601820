package output

import (
	"encoding/binary"
	"io"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// FrameWriter writes the frames of wire/agent.go.
type FrameWriter struct {
	w      io.Writer
	buffer []byte
}

func NewFrameWriter(w io.Writer) *FrameWriter { return &FrameWriter{w: w} }

// Buffer returns the memory of the next frame's data, so that Send copies nothing.
func (f *FrameWriter) Buffer() []byte {
	if f.buffer == nil {
		f.buffer = make([]byte, wire.FrameHeader+wire.FrameDataMax)
	}
	return f.buffer[wire.FrameHeader:]
}

// Send writes a frame with the first n bytes of Buffer.
func (f *FrameWriter) Send(kind byte, offset int64, n int) error {
	if f.buffer == nil {
		return f.send(make([]byte, wire.FrameHeader+n), kind, offset)
	}
	return f.send(f.buffer[:wire.FrameHeader+n], kind, offset)
}

// SendData writes a frame with a copy of data, cut at FrameDataMax.
func (f *FrameWriter) SendData(kind byte, data []byte) error {
	data = data[:min(len(data), wire.FrameDataMax)]
	frame := make([]byte, wire.FrameHeader+len(data))
	copy(frame[wire.FrameHeader:], data)
	return f.send(frame, kind, 0)
}

func (f *FrameWriter) send(frame []byte, kind byte, offset int64) error {
	frame[0], frame[1], frame[2], frame[3] = kind, 0, 0, 0
	binary.BigEndian.PutUint32(frame[4:], uint32(len(frame)-wire.FrameHeader))
	binary.BigEndian.PutUint64(frame[8:], uint64(offset))
	_, err := f.w.Write(frame)
	return err
}
