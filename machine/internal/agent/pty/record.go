package pty

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/berth-dev/berth/machine/internal/agent/record"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const recordName = "record.ndjson"

type entry = record.Line[wire.PtyRecord]

func createRecord(dir string, e entry) (*os.File, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := record.Create(filepath.Join(dir, recordName), e)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir)) // nothing was started: the id stays usable
	}
	return f, nil
}

// readRecord reports "starting" as "lost", because the machine that ran the terminal is gone.
func readRecord(dir string) (entry, error) {
	last, err := record.Last[wire.PtyRecord](filepath.Join(dir, recordName))
	if err == nil && last.Record.SessionID == "" {
		err = errors.New("a record without a whole line")
	}
	if last.Record.State == record.Starting {
		last.Record.State = record.Lost
		last.Record.Error = new("The machine that ran the terminal was lost")
	}
	return last, err
}
