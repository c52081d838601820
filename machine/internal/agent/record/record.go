// Package record stores a command or terminal as JSON lines. The first line is written before the program starts,
// the last after its end.
package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/plainfile"
)

// A record of an earlier boot whose last line is Starting is reported as Lost.
const (
	Starting = "starting"
	Running  = "running"
	Exited   = "exited"
	Failed   = "failed_to_start"
	Lost     = "lost"
)

const bytesMax = 2 << 20

// Line is a line of a record's file. Lines after the first may omit the fingerprint.
type Line[R any] struct {
	Fingerprint string `json:"fingerprint,omitempty"`
	Record      R      `json:"record"`
}

// Create writes a file with its first line, or leaves no file. It returns fs.ErrExist if the file exists.
func Create(path string, first any) (*os.File, error) {
	f, err := plainfile.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := Append(f, first); err != nil {
		f.Close()
		return nil, errors.Join(err, os.Remove(path))
	}
	return f, nil
}

// Append to a nil file returns an error.
func Append(f *os.File, line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return err
}

// Last returns the last complete line with the first line's fingerprint, or an empty Line.
func Last[R any](path string) (last Line[R], err error) {
	f, err := plainfile.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		return last, err
	}
	defer f.Close()
	lines := bufio.NewReader(io.LimitReader(f, bytesMax))
	for {
		text, err := lines.ReadBytes('\n')
		var next Line[R]
		if err != nil || json.Unmarshal(text, &next) != nil {
			return last, nil
		}
		if next.Fingerprint == "" {
			next.Fingerprint = last.Fingerprint
		}
		last = next
	}
}

// IsFull reports whether the disk is full. Programs start nevertheless, so that the user can delete files.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// Exit returns the code, or -1 and the signal's name.
func Exit(status unix.WaitStatus) (code *int, signal *string) {
	if status.Signaled() {
		return new(-1), new(unix.SignalName(status.Signal()))
	}
	return new(status.ExitStatus()), nil
}

// Stamp formats RFC 3339 in UTC with milliseconds.
func Stamp(t time.Time) *string { return new(t.UTC().Format("2006-01-02T15:04:05.000Z")) }
