// Package bookmark encodes a position in a walk that sorts names by bytes, with a directory before its entries.
package bookmark

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
)

// Bytes: a 4,096-byte path fits.
const cursorMax = 6000

// Position is a path below the start, in raw bytes, and a number of the walk.
type Position struct {
	Path   string
	Number int
}

var encoding = base64.RawURLEncoding

// Cursor is nil if the path is too long.
func (p Position) Cursor() *string {
	text := encoding.EncodeToString([]byte(strconv.Itoa(p.Number) + ":" + p.Path))
	if len(text) > cursorMax {
		return nil
	}
	return &text
}

// Parse takes "" as the start of the walk.
func Parse(cursor string) (Position, error) {
	if cursor == "" {
		return Position{}, nil
	}
	b, err := encoding.DecodeString(cursor)
	number, path, ok := strings.Cut(string(b), ":")
	n, err2 := strconv.Atoi(number)
	if err != nil || err2 != nil || !ok || n < 0 || len(cursor) > cursorMax {
		return Position{}, fail.BadRequest("invalid_cursor", "The cursor does not belong to this request")
	}
	return Position{Path: path, Number: n}, nil
}

func (p Position) Steps() []string {
	if p.Path == "" {
		return nil
	}
	return strings.Split(p.Path, "/")
}

// Next: passed, name sorts before the next step; on, it is that step, and rest are those below.
func Next(steps []string, name string) (passed, on bool, rest []string) {
	if len(steps) == 0 || name > steps[0] {
		return false, false, nil
	}
	if name < steps[0] {
		return true, false, nil
	}
	return false, true, steps[1:]
}
