package search

import (
	"bytes"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	patternBytesMax = 4096
	// RE2 may run every instruction at each byte, so their number is limited.
	instructionsMax = 10_000
	// In longer lines the deadline is checked during the match.
	longLine     = 4 << 10
	runesPerLook = 1024
)

type pattern struct {
	literal []byte // nil: use re
	re      *regexp.Regexp
	prefix  []byte // start of every match
}

func compile(req wire.SearchRequest) (*pattern, error) {
	refused := func(why string) error {
		return fail.Invalid("", "The pattern is not valid: "+why).With("issues", []map[string]string{{"path": "pattern", "message": why}})
	}
	text := req.Pattern
	switch {
	case text == "":
		return nil, refused("must not be empty")
	case len(text) > patternBytesMax:
		return nil, refused("must have at most 4096 bytes")
	case !utf8.ValidString(text):
		return nil, refused("must be UTF-8")
	case !req.Regex && strings.ContainsAny(text, "\n\x00"):
		return nil, refused("must not contain a line break or NUL: lines are matched one by one")
	case !req.Regex && !req.CaseInsensitive:
		return &pattern{literal: []byte(text)}, nil
	case !req.Regex:
		text = regexp.QuoteMeta(text)
	}
	if req.CaseInsensitive {
		text = "(?i)" + text
	}
	if why := tooComplex(text); why != "" {
		return nil, refused(why)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, refused("is not a regular expression of RE2")
	}
	prefix, _ := re.LiteralPrefix()
	return &pattern{re: re, prefix: []byte(prefix)}, nil
}

func tooComplex(text string) string {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return "is not a regular expression of RE2: " + err.(*syntax.Error).Code.String()
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > instructionsMax {
		return "is too complex"
	}
	return ""
}

func (p *pattern) possible(text []byte) bool {
	if p.literal != nil {
		return bytes.Contains(text, p.literal)
	}
	return bytes.Contains(text, p.prefix)
}

// find returns -1 for no match. An error of look ends the search.
func (p *pattern) find(line []byte, look func() error) (at, length int, err error) {
	if p.literal != nil {
		return bytes.Index(line, p.literal), len(p.literal), nil
	}
	var found []int
	if len(line) <= longLine {
		found = p.re.FindIndex(line)
	} else {
		reader := &lookingReader{line: line, look: look}
		found = p.re.FindReaderIndex(reader)
		if reader.err != nil {
			return -1, 0, reader.err
		}
	}
	if found == nil {
		return -1, 0, nil
	}
	return found[0], found[1] - found[0], nil
}

type lookingReader struct {
	line  []byte
	runes int
	look  func() error
	err   error
}

func (r *lookingReader) ReadRune() (rune, int, error) {
	if r.runes++; r.runes%runesPerLook == 0 && r.err == nil {
		r.err = r.look()
	}
	if r.err != nil || len(r.line) == 0 {
		return 0, 0, io.EOF
	}
	char, size := utf8.DecodeRune(r.line)
	r.line = r.line[size:]
	return char, size, nil
}
