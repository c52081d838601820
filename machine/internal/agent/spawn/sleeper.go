package spawn

import (
	"encoding/binary"

	"github.com/berth-dev/berth/machine/internal/sealed"
)

// The guest's PID 1 only sleeps, so it is a few instructions. A Go program would cost the guest several MiB and
// threads.
func sleeperFD() (int, error) {
	return sealed.FD("init", sleeperELF(sleeperCode, sleeperMachine))
}

const (
	elfBase       = 0x400000
	elfHeaderSize = 64 + 56
)

func sleeperELF(code []byte, machine uint16) []byte {
	le := binary.LittleEndian
	b := append([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, make([]byte, 9)...)
	b = le.AppendUint16(b, 2) // ET_EXEC
	b = le.AppendUint16(b, machine)
	b = le.AppendUint32(b, 1)
	b = le.AppendUint64(b, elfBase+elfHeaderSize) // entry
	b = le.AppendUint64(b, 64)                    // program headers
	b = le.AppendUint64(b, 0)                     // no sections
	b = le.AppendUint32(b, 0)
	for _, v := range []uint16{64, 56, 1, 0, 0, 0} {
		b = le.AppendUint16(b, v)
	}
	b = le.AppendUint32(b, 1) // PT_LOAD
	b = le.AppendUint32(b, 5) // readable, executable
	size := uint64(elfHeaderSize + len(code))
	for _, v := range []uint64{0, elfBase, elfBase, size, size, 0x1000} {
		b = le.AppendUint64(b, v)
	}
	return append(b, code...)
}
