// Package listing divides lists of commands and terminals into pages.
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
	// The cell limits the bytes and values of a reply, so arguments and errors are cut.
	argvBytesMax  = 512
	errorBytesMax = 512
	nameBytes     = 32
)

const (
	Running = "running"
	Ended   = "ended"
)

// Position is the place of an entry in a list that is ordered by start time, then by name.
type Position struct {
	At   int64 // Unix milliseconds
	Name string
}

type Query struct {
	State string
	Limit int
	after *Position
}

// Parse checks a query. The cursor is the Position of the previous page's last entry.
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
	q.after = &Position{At: ms, Name: name}
	return q, nil
}

func (q Query) Matches(state string) bool {
	return q.State == "" || (q.State == Running) == (state == record.Running)
}

// Page returns rows, newest first. show returns false to skip an entry. next is nil on the last page.
func Page[R any](q Query, places []Position, show func(Position) (R, bool)) (rows []R, next *string) {
	rows = []R{}
	slices.SortFunc(places, newestFirst)
	var last Position
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

func newestFirst(a, b Position) int {
	return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(b.Name, a.Name))
}

// At returns the start in Unix milliseconds. Without a start, because the program never ran, it returns the end;
// without both, 0.
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

func CutArgv(argv []string) (told []string, isCut bool) {
	told = []string{}
	left := argvBytesMax
	for _, word := range argv {
		left-- // so that empty arguments are limited too
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

func CutError(text *string) *string {
	if text == nil || len(*text) <= errorBytesMax {
		return text
	}
	return new(cut(*text, errorBytesMax) + "…")
}

func cut(text string, bytes int) string {
	for bytes > 0 && !utf8.RuneStart(text[bytes]) {
		bytes--
	}
	return text[:bytes]
}
