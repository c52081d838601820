// Package record keeps what is known of a command or a terminal in a file of JSON lines: the first is written before the program starts,
// the last when it has ended.
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

// States. A record on disk that only says starting belongs to a boot of the agent that is gone: it is lost.
const (
	Starting = "starting"
	Running  = "running"
	Exited   = "exited"
	Failed   = "failed_to_start"
	Lost     = "lost"
)

const bytesMax = 2 << 20

// Line is one of a record. A later one need not repeat the fingerprint.
type Line[R any] struct {
	Fingerprint string `json:"fingerprint,omitempty"`
	Record      R      `json:"record"`
}

// Create makes the file with its first line, or leaves none. fs.ErrExist: it is there already.
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

// Append writes the next line. A nil file takes it without effect, and says so.
func Append(f *os.File, line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return err
}

// Last returns the last whole line, with the fingerprint of the first: an empty one where not even that became whole.
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

// IsFull says that the disk takes no more. Programs start all the same, or nobody could make room.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// Exit is how a program ended: its code, or -1 and the name of the signal.
func Exit(status unix.WaitStatus) (code *int, signal *string) {
	if status.Signaled() {
		return new(-1), new(unix.SignalName(status.Signal()))
	}
	return new(status.ExitStatus()), nil
}

// Stamp is RFC 3339 with milliseconds in UTC, as records have it.
func Stamp(t time.Time) *string { return new(t.UTC().Format("2006-01-02T15:04:05.000Z")) }
