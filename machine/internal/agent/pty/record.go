package pty

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/plainfile"
	"github.com/berth-dev/berth/machine/internal/agent/session"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// States of a terminal. A record on disk that says no end belongs to a machine that is gone.
const (
	stateStarting = "starting"
	stateRunning  = "running"
	stateExited   = "exited"
	stateFailed   = "failed_to_start"
	stateLost     = "lost"
)

// recordName is one file of JSON lines: the first is written before the program starts, the last when it has ended.
const recordName = "record.ndjson"

const recordBytesMax = 2 << 20

type entry struct {
	Fingerprint string         `json:"fingerprint"`
	Record      wire.PtyRecord `json:"record"`
}

// createRecord makes the terminal's directory and writes its first line.
func createRecord(dir string, e entry) (*os.File, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := plainfile.Open(filepath.Join(dir, recordName), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_APPEND, 0o600)
	if err == nil {
		if err = session.AppendLine(f, e); err == nil {
			return f, nil
		}
		f.Close()
	}
	return nil, errors.Join(err, os.RemoveAll(dir)) // nothing was started: the id stays free
}

// readRecord returns the last whole line.
func readRecord(dir string) (entry, error) {
	f, err := plainfile.Open(filepath.Join(dir, recordName), unix.O_RDONLY, 0)
	if err != nil {
		return entry{}, err
	}
	defer f.Close()
	var last entry
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, recordBytesMax)
	for lines.Scan() {
		var e entry
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			break
		}
		last = e
	}
	if last.Record.SessionID == "" {
		return last, errors.New("a record without a whole line")
	}
	if last.Record.State == stateStarting {
		last.Record.State = stateLost
		last.Record.Error = text("The machine that ran the terminal was lost")
	}
	return last, nil
}

func setStatus(r *wire.PtyRecord, status unix.WaitStatus) {
	code := status.ExitStatus()
	if status.Signaled() {
		code = -1
		r.TermSignal = text(unix.SignalName(status.Signal()))
	}
	r.ExitCode = &code
}

func text(s string) *string { return &s }
