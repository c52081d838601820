package httpwire

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"sync"
)

const (
	RequestHeadMax  = 32 << 10
	ResponseHeadMax = 64 << 10
	FieldsMax       = 200
	trailersMax     = 8 << 10
)

var errTooLarge = errors.New("a head is too large")

var heads = sync.Pool{New: func() any { return new(make([]byte, 0, 2<<10)) }}

func readHead(r *bufio.Reader, bytesMax int, lenient bool) (lines string, err error) {
	buffer := heads.Get().(*[]byte)
	head := (*buffer)[:0]
	defer func() {
		if cap(head) <= RequestHeadMax {
			*buffer = head
			heads.Put(buffer)
		}
	}()
	for start := 0; ; {
		piece, err := r.ReadSlice('\n')
		head = append(head, piece...)
		switch {
		case len(head) > bytesMax:
			return "", errTooLarge
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(head) > 0:
			return "", io.ErrUnexpectedEOF
		case err != nil:
			return "", err
		}
		end := len(head) - 1
		if end > start && head[end-1] == '\r' {
			end--
		} else if !lenient {
			return "", bad("A line ends without a carriage return.")
		}
		head = append(head[:end], '\n')
		if end == start {
			return string(head[:start]), nil
		}
		start = end + 1
	}
}

// cutLine leaves any carriage return in the line, which the line's parser refuses.
func cutLine(lines string) (line, rest string) {
	line, rest, _ = strings.Cut(lines, "\n")
	return line, rest
}

func parseFields(lines string, room int) (Fields, error) {
	count := strings.Count(lines, "\n")
	if count > room {
		return nil, errTooLarge
	}
	fields := make(Fields, 0, count)
	for lines != "" {
		var line string
		line, lines = cutLine(lines)
		field, err := parseField(line)
		if err != nil {
			return nil, err
		}
		fields = append(fields, field)
	}
	return fields, nil
}
