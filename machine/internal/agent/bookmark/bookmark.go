// Package bookmark says where a walk stood, as the text of a cursor, so that a caller goes on there. The walk takes the names of each
// directory in the order of their bytes. It takes a directory, then what is in it, then its next sibling.
package bookmark

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
)

// cursorMax bounds a cursor: a path of 4,096 bytes fits.
const cursorMax = 6000

// Place is a path below the start of the walk, in the names' own bytes, and a number that the walk gives a meaning.
type Place struct {
	Path   string
	Number int
}

var encoding = base64.RawURLEncoding

// Cursor is nil where the path is too long for one.
func (p Place) Cursor() *string {
	text := encoding.EncodeToString([]byte(strconv.Itoa(p.Number) + ":" + p.Path))
	if len(text) > cursorMax {
		return nil
	}
	return &text
}

// Parse reads a cursor; "" is the beginning.
func Parse(cursor string) (Place, error) {
	if cursor == "" {
		return Place{}, nil
	}
	b, err := encoding.DecodeString(cursor)
	number, path, ok := strings.Cut(string(b), ":")
	n, err2 := strconv.Atoi(number)
	if err != nil || err2 != nil || !ok || n < 0 || len(cursor) > cursorMax {
		return Place{}, fail.BadRequest("invalid_cursor", "The cursor does not belong to this request")
	}
	return Place{Path: path, Number: n}, nil
}

// Steps are the names of the path, which a walk follows down.
func (p Place) Steps() []string {
	if p.Path == "" {
		return nil
	}
	return strings.Split(p.Path, "/")
}

// Next says how a name stands to the place that steps lead to. passed: the name comes before the place, and the walk skips it.
// on: the place is at the name or below it, and rest are the steps below the name.
func Next(steps []string, name string) (passed, on bool, rest []string) {
	if len(steps) == 0 || name > steps[0] {
		return false, false, nil
	}
	if name < steps[0] {
		return true, false, nil
	}
	return false, true, steps[1:]
}
