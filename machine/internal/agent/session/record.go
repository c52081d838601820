package session

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/plainfile"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// States of a session. A record on disk that only says starting belongs to a boot of the agent that is gone.
const (
	stateStarting = "starting"
	stateRunning  = "running"
	stateExited   = "exited"
	stateFailed   = "failed_to_start"
	stateLost     = "lost"
)

// recordSuffix follows the name of a session's directory: a file of JSON lines, of which the first is written before the command
// starts, the last when it has ended. It lies beside the directory, which only output makes: each name that is made on the disk
// costs a quarter of a millisecond.
const recordSuffix = ".ndjson"

const recordBytesMax = 2 << 20

type entry struct {
	Fingerprint string          `json:"fingerprint,omitempty"`
	Record      wire.ExecRecord `json:"record"`
}

// dirName is where a session lives: ids may hold characters and lengths that a file name should not.
func dirName(sessionID string) string {
	sum := sha256.Sum256([]byte(sessionID))
	return hex.EncodeToString(sum[:])
}

// createRecord takes the id and writes its first line. fs.ErrExist: the id was used before.
func createRecord(dir string, e entry) (*os.File, error) {
	f, err := plainfile.Open(dir+recordSuffix, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := AppendLine(f, e); err != nil {
		// Nothing was started: the id stays free.
		f.Close()
		return nil, errors.Join(err, os.Remove(f.Name()))
	}
	return f, nil
}

// AppendLine writes a record's next line.
func AppendLine(f *os.File, record any) error {
	line, err := json.Marshal(record)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return err
}

// readRecord returns the last whole line, with the fingerprint of the first. A record whose first line never became whole
// is lost: the command may have run all the same when the computer lost its power.
func readRecord(dir, sessionID string) (entry, error) {
	f, err := plainfile.Open(dir+recordSuffix, unix.O_RDONLY, 0)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return entry{}, err
	}
	var last entry
	if err == nil {
		defer f.Close()
		last = lastEntry(io.LimitReader(f, recordBytesMax))
	}
	if last.Record.State == stateStarting || last.Record.State == "" {
		last.Record.SessionID = sessionID
		last.Record.State = stateLost
		if last.Record.Argv == nil {
			last.Record.Argv = []string{} // of a torn line nobody knows what it was
		}
		last.Record.Error = text("The machine that ran the command was lost")
	}
	return last, nil
}

func lastEntry(r io.Reader) entry {
	var last entry
	scan := bufio.NewReader(r)
	for {
		line, err := scan.ReadBytes('\n')
		if err != nil {
			return last
		}
		var e entry
		if json.Unmarshal(bytes.TrimSpace(line), &e) != nil {
			return last
		}
		if e.Fingerprint == "" {
			e.Fingerprint = last.Fingerprint
		}
		last = e
	}
}

func text(s string) *string { return &s }

func number(n int) *int { return &n }

// Stamp is RFC 3339 with milliseconds in UTC, as records have it.
func Stamp(t time.Time) *string { return text(t.UTC().Format("2006-01-02T15:04:05.000Z")) }
