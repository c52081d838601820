// Package listing is what lists of commands and of terminals have in common: the order, the pages, and how much is told of one.
package listing

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/record"
)

const (
	limitMax = 200
	// argvBytesMax and errorBytesMax bound the answer, which the cell reads with a limit of bytes and of values.
	argvBytesMax  = 512
	errorBytesMax = 512
	nameBytes     = 32
)

// Which are wanted. No word: all of them.
const (
	Running = "running"
	Ended   = "ended"
)

// Place is where one stands in the list: when it began, and a name for those of the same millisecond.
type Place struct {
	At   int64 // milliseconds
	Name string
}

// Query is one page of the list, newest first.
type Query struct {
	State string
	Limit int
	after *Place
}

// Parse reads a request. A cursor is the place of the last one of the page before.
func Parse(state, cursor string, limit int64) (Query, error) {
	if state != "" && state != Running && state != Ended {
		return Query{}, fail.BadRequest("invalid_query", "state is running or ended")
	}
	q := Query{State: state, Limit: int(min(max(limit, 1), limitMax))}
	if cursor == "" {
		return q, nil
	}
	at, name, _ := strings.Cut(cursor, "-")
	ms, err := strconv.ParseInt(at, 10, 64)
	digest, hexErr := hex.DecodeString(name)
	if err != nil || ms < 0 || hexErr != nil || len(digest) != nameBytes {
		return Query{}, fail.BadRequest("invalid_cursor", "The cursor is none of this list")
	}
	q.after = &Place{At: ms, Name: name}
	return q, nil
}

// Wants says whether one in this state is asked for.
func (q Query) Wants(state string) bool {
	return q.State == "" || (q.State == Running) == (state == record.Running)
}

// Page shows places of the list in their order. show leaves out what is not wanted, or is gone by then. next: the cursor of the page that
// follows, nil after the last.
func Page[R any](q Query, places []Place, show func(Place) (R, bool)) (rows []R, next *string) {
	rows = []R{}
	slices.SortFunc(places, newestFirst)
	var last Place
	for _, place := range places {
		if q.after != nil && newestFirst(place, *q.after) <= 0 {
			continue
		}
		row, ok := show(place)
		if !ok {
			continue
		}
		if len(rows) == q.Limit {
			return rows, new(fmt.Sprintf("%d-%s", last.At, last.Name))
		}
		rows, last = append(rows, row), place
	}
	return rows, nil
}

func newestFirst(a, b Place) int {
	return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(b.Name, a.Name))
}

// At is when something began, by its record. What never ran began when it failed. 0: the record does not say.
func At(startedAt, endedAt *string) int64 {
	for _, stamp := range []*string{startedAt, endedAt} {
		if stamp == nil {
			continue
		}
		if at, err := time.Parse(time.RFC3339, *stamp); err == nil {
			return at.UnixMilli()
		}
	}
	return 0
}

// CutArgv is as much of the words as a list tells.
func CutArgv(argv []string) (told []string, isCut bool) {
	told = []string{}
	left := argvBytesMax
	for _, word := range argv {
		left-- // or empty words would be without number
		if left <= 0 {
			return told, true
		}
		if len(word) > left {
			return append(told, cut(word, left)), true
		}
		told = append(told, word)
		left -= len(word)
	}
	return told, false
}

// CutError is the same of a sentence.
func CutError(text *string) *string {
	if text == nil || len(*text) <= errorBytesMax {
		return text
	}
	return new(cut(*text, errorBytesMax) + "…")
}

// cut ends between two characters.
func cut(text string, bytes int) string {
	for bytes > 0 && !utf8.RuneStart(text[bytes]) {
		bytes--
	}
	return text[:bytes]
}
