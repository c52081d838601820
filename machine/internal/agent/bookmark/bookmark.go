// Package bookmark encodes the position of a directory walk as a cursor, so that a caller can continue from there. A
// walk sorts the names of each directory by bytes. It visits a directory, then its entries, then its next sibling.
package bookmark

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
)

// cursorMax is in bytes: the cursor of a 4,096-byte path fits.
const cursorMax = 6000

// Position is the position of a walk: a path below its start, in raw bytes, and a number whose meaning the walk defines.
type Position struct {
	Path   string
	Number int
}

var encoding = base64.RawURLEncoding

// Cursor encodes the position; nil if the path is too long.
func (p Position) Cursor() *string {
	text := encoding.EncodeToString([]byte(strconv.Itoa(p.Number) + ":" + p.Path))
	if len(text) > cursorMax {
		return nil
	}
	return &text
}

// Parse decodes a cursor; "" is the start of the walk.
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

// Next compares a name with the first step of a cursor's path. passed: the name sorts before it, so the walk skips the
// name. on: the name is that step; rest holds the steps below it.
func Next(steps []string, name string) (passed, on bool, rest []string) {
	if len(steps) == 0 || name > steps[0] {
		return false, false, nil
	}
	if name < steps[0] {
		return true, false, nil
	}
	return false, true, steps[1:]
}
