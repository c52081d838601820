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

// Only output creates the directory, so the record is its sibling: each new name on disk takes 0.25 ms.
const recordSuffix = ".ndjson"

type entry = record.Line[wire.ExecRecord]

// The id may be too long for a file name or contain bad characters.
func dirName(sessionID string) string {
	sum := sha256.Sum256([]byte(sessionID))
	return hex.EncodeToString(sum[:])
}

// A torn first line counts as lost: after a power loss the command may have run.
func readRecord(dir, sessionID string) (entry, error) {
	last, err := record.Last[wire.ExecRecord](dir + recordSuffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return entry{}, err
	}
	if last.Record.State == record.Starting || last.Record.State == "" {
		last.Record.SessionID = cmp.Or(sessionID, last.Record.SessionID)
		last.Record.State = record.Lost
		if last.Record.Argv == nil {
			last.Record.Argv = []string{} // unknown after a torn line
		}
		last.Record.Error = new("The machine that ran the command was lost")
	}
	return last, nil
}
