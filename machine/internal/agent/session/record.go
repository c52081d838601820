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

// The record is not in the directory, which is created only for output: each new name on the disk takes 0.25 ms.
const recordSuffix = ".ndjson"

type entry = record.Line[wire.ExecRecord]

// dirName hashes the id, which may be too long for a file name or contain bad characters.
func dirName(sessionID string) string {
	sum := sha256.Sum256([]byte(sessionID))
	return hex.EncodeToString(sum[:])
}

// readRecord reports a partly written first line as lost, because the command may have run before a power loss.
func readRecord(dir, sessionID string) (entry, error) {
	last, err := record.Last[wire.ExecRecord](dir + recordSuffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return entry{}, err
	}
	if last.Record.State == record.Starting || last.Record.State == "" {
		last.Record.SessionID = cmp.Or(sessionID, last.Record.SessionID)
		last.Record.State = record.Lost
		if last.Record.Argv == nil {
			last.Record.Argv = []string{} // unknown after a partly written line
		}
		last.Record.Error = new("The machine that ran the command was lost")
	}
	return last, nil
}
