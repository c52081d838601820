package hostd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// The digest of an image's part follows its content alone, not how it lies on a disk, and costs nothing for what is zero: pages.img
// is a sparse file as large as the guest's memory.
//
//	digest  = SHA-256(size ‖ digest of each segment of 16 MiB, in order)
//	segment = SHA-256 over offset ‖ bytes of each block of 64 KiB in it that is not all zero
//
// Numbers are 8 bytes, big endian. Segments are computed side by side. Holes are skipped without reading.
const (
	digestSegment = 16 << 20
	digestBlock   = 64 << 10
)

var zeroBlock = make([]byte, digestBlock)

// contentDigest reads the file through a descriptor of its own.
func contentDigest(ctx context.Context, path string) (string, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	segments, err := segmentDigests(ctx, file, info.Size())
	if err != nil {
		return "", err
	}
	whole := sha256.New()
	whole.Write(number(info.Size()))
	for _, segment := range segments {
		whole.Write(segment)
	}
	return hex.EncodeToString(whole.Sum(nil)), nil
}

func segmentDigests(ctx context.Context, file *os.File, size int64) ([][]byte, error) {
	digests := make([][]byte, (size+digestSegment-1)/digestSegment)
	errs := make([]error, len(digests))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(runtime.NumCPU(), len(digests)) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			block := make([]byte, digestBlock)
			for i := range next {
				start := int64(i) * digestSegment
				digests[i], errs[i] = segmentDigest(ctx, file, start, min(start+digestSegment, size), block)
			}
		}()
	}
	for i := range digests {
		next <- i
	}
	close(next)
	workers.Wait()
	return digests, errors.Join(errs...)
}

func segmentDigest(ctx context.Context, file *os.File, start, end int64, block []byte) ([]byte, error) {
	hash := sha256.New()
	for offset := start; offset < end; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		data, err := unix.Seek(int(file.Fd()), offset, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // nothing but a hole from here on
		}
		if err != nil {
			return nil, err
		}
		// The block that the data begins in, whole: how the file system lays out its extents must not show.
		offset = max(offset, data-data%digestBlock)
		if offset >= end {
			break
		}
		n := min(end-offset, digestBlock)
		if _, err := io.ReadFull(io.NewSectionReader(file, offset, n), block[:n]); err != nil {
			return nil, err
		}
		if !bytes.Equal(block[:n], zeroBlock[:n]) {
			hash.Write(number(offset))
			hash.Write(block[:n])
		}
		offset += n
	}
	return hash.Sum(nil), nil
}

func number(value int64) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(value))
}
