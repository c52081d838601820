package search

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/berth-dev/berth/machine/internal/wire"
)

const textBytesMax = 1000

const linesPerLook = 1024

func (s *search) file(c *content, path string) error {
	defer s.done(c)
	if c.size == 0 {
		return nil
	}
	if s.fileBytes += c.size; s.fileBytes > s.bounds.FileBytes {
		return s.halt(stopBytes)
	}
	if c.read(); c.text == nil {
		return nil
	}
	s.result.FilesScanned++
	if bytes.IndexByte(c.text, 0) >= 0 || !s.pattern.possible(c.text) {
		return nil
	}
	return s.lines(c.text, path)
}

func (s *search) lines(text []byte, path string) error {
	context := newContext(s.req.ContextLines)
	number, done := 0, s.at.Number
	for len(text) > 0 {
		s.at.Number = max(number, done)
		number++
		line, rest, _ := bytes.Cut(text, []byte{'\n'})
		text = rest
		line = bytes.TrimSuffix(line, []byte{'\r'})
		if number%linesPerLook == 0 {
			if err := s.inTime(); err != nil {
				return err
			}
		}
		if number <= done {
			context.passed(line)
			continue
		}
		at, length, err := s.pattern.find(line, s.inTime)
		if err != nil {
			return err
		}
		if at >= 0 {
			if err := s.take(path, number, line, at, length, context, rest); err != nil {
				return err
			}
		}
		context.passed(line)
	}
	return nil
}

func (s *search) take(path string, number int, line []byte, at, length int, context *context, rest []byte) error {
	if len(s.result.Matches) == s.req.MaxMatches {
		return s.halt(stopMatches)
	}
	m := wire.SearchMatch{Path: path, Line: number, Column: at + 1, Text: around(line, at, length), Before: context.before(), After: context.after(rest)}
	s.answer += cost(path) + cost(m.Text) + 100
	for _, each := range append(m.Before, m.After...) {
		s.answer += cost(each)
	}
	if s.answer > s.bounds.AnswerBytes {
		return s.halt(stopAnswer)
	}
	s.result.Matches = append(s.result.Matches, m)
	return nil
}

// cost estimates the bytes of text in JSON, where some characters become six bytes.
func cost(text string) int {
	n := len(text) + 4
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '<' || c == '>' || c == '&' || c == '"' || c == '\\' {
			n += 5
		}
	}
	return n
}

func around(line []byte, at, length int) string {
	if len(line) > textBytesMax {
		from := max(0, min(at-(textBytesMax-min(length, textBytesMax))/2, len(line)-textBytesMax))
		for from > 0 && from < len(line) && !utf8.RuneStart(line[from]) {
			from++
		}
		line = line[from:]
	}
	return cut(line)
}

func cut(line []byte) string {
	if len(line) > textBytesMax {
		end := textBytesMax
		for end > textBytesMax-utf8.UTFMax && !utf8.RuneStart(line[end]) {
			end--
		}
		line = line[:end]
	}
	return strings.ToValidUTF8(string(line), "\uFFFD")
}

type context struct {
	lines int
	last  [][]byte
}

func newContext(lines int) *context { return &context{lines: lines} }

func (c *context) passed(line []byte) {
	if c.lines == 0 {
		return
	}
	if len(c.last) == c.lines {
		c.last = append(c.last[:0], c.last[1:]...)
	}
	c.last = append(c.last, line)
}

func (c *context) before() []string {
	list := make([]string, 0, len(c.last))
	for _, line := range c.last {
		list = append(list, cut(line))
	}
	return list
}

func (c *context) after(rest []byte) []string {
	list := []string{}
	for len(rest) > 0 && len(list) < c.lines {
		line, next, _ := bytes.Cut(rest, []byte{'\n'})
		list = append(list, cut(bytes.TrimSuffix(line, []byte{'\r'})))
		rest = next
	}
	return list
}
