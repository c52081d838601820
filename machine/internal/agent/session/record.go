package session

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"

	"github.com/berth-dev/berth/machine/internal/agent/record"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// recordSuffix follows the name of a session's directory. The record lies beside the directory, which only output makes: each name that is
// made on the disk costs a quarter of a millisecond.
const recordSuffix = ".ndjson"

type entry = record.Line[wire.ExecRecord]

// dirName is where a session lives: ids may hold characters and lengths that a file name should not.
func dirName(sessionID string) string {
	sum := sha256.Sum256([]byte(sessionID))
	return hex.EncodeToString(sum[:])
}

// readRecord returns what the record says last. One whose first line never became whole is lost: the command may have run all the same when
// the computer lost its power. No sessionID: the caller knows the directory alone.
func readRecord(dir, sessionID string) (entry, error) {
	last, err := record.Last[wire.ExecRecord](dir + recordSuffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return entry{}, err
	}
	if last.Record.State == record.Starting || last.Record.State == "" {
		last.Record.SessionID = cmp.Or(sessionID, last.Record.SessionID)
		last.Record.State = record.Lost
		if last.Record.Argv == nil {
			last.Record.Argv = []string{} // of a torn line nobody knows what it was
		}
		last.Record.Error = new("The machine that ran the command was lost")
	}
	return last, nil
}
