// Package bookmark encodes a position in a walk that sorts names by bytes, with a directory before its entries.
package bookmark

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
)

// cursorMax is in bytes. The encoding of a path of 4,096 bytes, the longest, fits.
const cursorMax = 6000

// Position is a path below the walk's start, in raw bytes. Number belongs to the walk: a search stores the number of
// lines done.
type Position struct {
	Path   string
	Number int
}

var encoding = base64.RawURLEncoding

// Cursor returns nil if the path is too long for a cursor.
func (p Position) Cursor() *string {
	text := encoding.EncodeToString([]byte(strconv.Itoa(p.Number) + ":" + p.Path))
	if len(text) > cursorMax {
		return nil
	}
	return &text
}

// Parse reads an empty cursor as the start of the walk.
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

// Next compares name with the first step. passed means that name sorts before the step; on means that name is the
// step, and rest are the steps below.
func Next(steps []string, name string) (passed, on bool, rest []string) {
	if len(steps) == 0 || name > steps[0] {
		return false, false, nil
	}
	if name < steps[0] {
		return true, false, nil
	}
	return false, true, steps[1:]
}
