package spawn

import (
	"encoding/binary"
	"syscall"
	"unsafe"
)

// A program is the list of system calls that a new process makes before it executes a file. It is one block of
// memory, because the process must not allocate.
//
//	header | steps | data that steps point to

// Offsets count from the start of the header; 0 means none.
type header struct {
	steps      uint64 // number of steps, which follow the header
	candidates uint64 // offset of a 0-terminated array of paths
	argv, env  uint64 // offsets of 0-terminated arrays of strings
	execFD     uint64 // if not 0: execveat of this descriptor instead of candidates
	clone      uint64
	exitSignal uint64
}

type step struct {
	nr          uintptr
	args        [5]uintptr
	stage       uint32
	soft        uint32 // not 0: ignore a failure
	pointers    uint32 // bit i: args[i] is an offset
	descriptors uint32 // bit i: args[i] is the index of a passed descriptor
}

const (
	headerBytes = unsafe.Sizeof(header{})
	stepBytes   = unsafe.Sizeof(step{})
)

type builder struct {
	header header
	steps  []step
	data   []byte
	failed error
}

type argument struct {
	value   uintptr
	pointer bool
	passed  bool
}

func number(v uintptr) argument { return argument{value: v} }
func passed(index int) argument { return argument{value: uintptr(index), passed: true} }
func numbers(v ...uintptr) (all []argument) {
	for _, n := range v {
		all = append(all, number(n))
	}
	return all
}

func (b *builder) add(stage uint32, soft bool, nr uintptr, args ...argument) {
	s := step{nr: nr, stage: stage}
	if soft {
		s.soft = 1
	}
	for i, a := range args {
		s.args[i] = a.value
		if a.pointer {
			s.pointers |= 1 << i
		}
		if a.passed {
			s.descriptors |= 1 << i
		}
	}
	b.steps = append(b.steps, s)
}

// bytes adds data at an offset that is a multiple of 8.
func (b *builder) bytes(p []byte) argument {
	for len(b.data)%8 != 0 {
		b.data = append(b.data, 0)
	}
	at := len(b.data)
	b.data = append(b.data, p...)
	return argument{value: uintptr(at), pointer: true}
}

func (b *builder) words(v ...uint64) argument {
	var p []byte
	for _, w := range v {
		p = binary.NativeEndian.AppendUint64(p, w)
	}
	return b.bytes(p)
}

func (b *builder) text(s string) argument {
	p, err := syscall.ByteSliceFromString(s)
	if err != nil {
		b.failed = err
	}
	at := len(b.data)
	b.data = append(b.data, p...)
	return argument{value: uintptr(at), pointer: true}
}

// texts stores offsets plus 1, because 0 ends the array.
func (b *builder) texts(list []string) uint64 {
	array := make([]uint64, 0, len(list)+1)
	for _, s := range list {
		array = append(array, uint64(b.text(s).value)+1)
	}
	return uint64(b.words(append(array, 0)...).value) + 1
}

// build converts offsets in data (plus 1 in arrays and the header) to offsets from the header.
func (b *builder) build() ([]byte, error) {
	if b.failed != nil {
		return nil, b.failed
	}
	start := headerBytes + uintptr(len(b.steps))*stepBytes
	h := b.header
	h.steps = uint64(len(b.steps))
	for _, at := range []*uint64{&h.candidates, &h.argv, &h.env} {
		if *at == 0 {
			continue
		}
		for i := *at - 1; ; i += 8 {
			v := binary.NativeEndian.Uint64(b.data[i:])
			if v == 0 {
				break
			}
			binary.NativeEndian.PutUint64(b.data[i:], v-1+uint64(start))
		}
		*at += uint64(start) - 1
	}
	out := make([]byte, 0, int(start)+len(b.data))
	out = append(out, unsafe.Slice((*byte)(unsafe.Pointer(&h)), headerBytes)...)
	for i := range b.steps {
		for a := range b.steps[i].args {
			if b.steps[i].pointers&(1<<a) != 0 {
				b.steps[i].args[a] += start
			}
		}
		out = append(out, unsafe.Slice((*byte)(unsafe.Pointer(&b.steps[i])), stepBytes)...)
	}
	return append(out, b.data...), nil
}
