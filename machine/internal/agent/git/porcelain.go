package git

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/machine/internal/wire"
)

var errMalformed = errors.New("git: its answer is not what git writes")

// cut means that the output was truncated, perhaps inside a record.
func parseStatus(out []byte, cut bool) (wire.GitStatus, error) {
	s := wire.GitStatus{Files: []wire.GitFile{}, Truncated: cut}
	r := records{rest: out}
	for {
		record, ok := r.next()
		if !ok {
			break
		}
		if len(s.Files) == wire.GitFilesMax {
			s.Truncated = true
			break
		}
		if err := (*status)(&s).take(record, &r, cut); err != nil {
			return wire.GitStatus{}, err
		}
	}
	if len(r.rest) > 0 && !s.Truncated {
		return wire.GitStatus{}, errMalformed
	}
	s.Clean = len(s.Files) == 0 && !s.Truncated
	return s, nil
}

type records struct{ rest []byte }

func (r *records) next() (string, bool) {
	record, rest, found := bytes.Cut(r.rest, []byte{0})
	if !found {
		return "", false
	}
	r.rest = rest
	return string(record), true
}

type status wire.GitStatus

func (s *status) take(record string, r *records, cut bool) error {
	kind, rest, found := strings.Cut(record, " ")
	if !found || rest == "" {
		return errMalformed
	}
	switch kind {
	case "#":
		return s.header(rest)
	case "1":
		return s.file(rest, 8, false, "")
	case "2":
		from, whole := r.next()
		if !whole && cut {
			return nil
		}
		if !whole || from == "" {
			return errMalformed
		}
		return s.file(rest, 9, false, from)
	case "u":
		return s.file(rest, 10, true, "")
	case "?":
		s.add(wire.GitFile{Path: rest, Index: "untracked", Worktree: "untracked"}, "")
		return nil
	case "!":
		return nil // ignored files are not requested
	}
	return errMalformed
}

func (s *status) header(text string) error {
	name, value, _ := strings.Cut(text, " ")
	value = strings.ToValidUTF8(value, "\uFFFD")
	switch name {
	case "branch.oid":
		if value != "(initial)" {
			s.Head = &value
		}
	case "branch.head":
		if value != "(detached)" {
			s.Branch = &value
		}
	case "branch.upstream":
		s.Upstream = &value
	case "branch.ab":
		return s.distance(value)
	}
	return nil // newer versions may add headers
}

func (s *status) distance(value string) error {
	ahead, behind, found := strings.Cut(value, " ")
	a, err1 := strconv.ParseInt(ahead, 10, 32)
	b, err2 := strconv.ParseInt(behind, 10, 32)
	if !found || err1 != nil || err2 != nil || a < 0 || b > 0 {
		return errMalformed
	}
	more, less := int(a), int(-b)
	s.Ahead, s.Behind = &more, &less
	return nil
}

// The path is the last field, and may contain spaces.
func (s *status) file(text string, fields int, conflicted bool, from string) error {
	parts := strings.SplitN(text, " ", fields)
	if len(parts) != fields || len(parts[0]) != 2 || parts[fields-1] == "" {
		return errMalformed
	}
	index, worktree := stateOf(parts[0][0]), stateOf(parts[0][1])
	if index == "" || worktree == "" {
		return errMalformed
	}
	s.add(wire.GitFile{Path: parts[fields-1], Index: index, Worktree: worktree, Conflicted: conflicted}, from)
	return nil
}

func (s *status) add(f wire.GitFile, from string) {
	f.Path = strings.ToValidUTF8(f.Path, "\uFFFD")
	if from != "" {
		from = strings.ToValidUTF8(from, "\uFFFD")
		f.RenamedFrom = &from
	}
	s.Files = append(s.Files, f)
}

func stateOf(letter byte) string {
	switch letter {
	case '.':
		return "unmodified"
	case 'M':
		return "modified"
	case 'T':
		return "type_changed"
	case 'A':
		return "added"
	case 'D':
		return "deleted"
	case 'R':
		return "renamed"
	case 'C':
		return "copied"
	case 'U':
		return "unmerged"
	}
	return ""
}
