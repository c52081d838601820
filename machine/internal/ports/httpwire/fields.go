// Package httpwire reads and writes HTTP/1.1 between two hostile peers. It refuses ambiguous input, and generates
// framing itself. Unlike net/http, it preserves the order, case and repetition of fields.
package httpwire

import (
	"strings"
)

type Field struct {
	Name, Value string
	Known       Known
	Twisted     bool // the name has `_` in the place of `-`, and is Known only for programs that treat both as equal
}

type Fields []Field

func MakeField(name, value string) Field {
	known, twisted := knowName(name)
	return Field{name, value, known, twisted}
}

func (f Fields) Only(known Known) (value string, count int) {
	for i := range f {
		if f[i].Known == known && !f[i].Twisted {
			if count == 0 {
				value = f[i].Value
			}
			count++
		}
	}
	return value, count
}

// HasToken looks for a token in the lists of all fields of this name.
func (f Fields) HasToken(known Known, token string) bool {
	for i := range f {
		if f[i].Known == known && !f[i].Twisted && hasToken(f[i].Value, token) {
			return true
		}
	}
	return false
}

const namedMax = 32

// Connection names are limited, because each is compared with each field.
func (f Fields) namesTooMany() bool {
	names := 0
	for i := range f {
		if f[i].Known == Connection {
			names += 1 + strings.Count(f[i].Value, ",")
		}
	}
	return names > namedMax
}

func (f Fields) Bytes() (bytes int) {
	for i := range f {
		bytes += len(f[i].Name) + len(f[i].Value) + len(": \r\n")
	}
	return bytes
}

func hasToken(list, token string) bool {
	for part := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.Trim(part, " \t"), token) {
			return true
		}
	}
	return false
}

type Problem struct {
	Status  int
	Reason  string
	Message string
}

func (p *Problem) Error() string { return p.Message }

func bad(message string) error { return &Problem{400, "bad_request", message} }

func parseField(line string) (Field, error) {
	name, value, found := strings.Cut(line, ":")
	switch {
	case line[0] == ' ' || line[0] == '\t':
		return Field{}, bad("A header field goes on in another line.")
	case !found:
		return Field{}, bad("A header line has no colon.")
	case !isToken(name):
		return Field{}, bad("The name of a header field is not valid.")
	}
	value = strings.Trim(value, " \t")
	if !isFieldValue(value) {
		return Field{}, bad("The value of a header field has a control character.")
	}
	known, twisted := knowName(name)
	return Field{name, value, known, twisted}, nil
}

// The bytes of a token: RFC 9110, 5.6.2.
var tokenBytes = func() (table [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") {
		table[c] = true
	}
	return table
}()

func isToken(text string) bool {
	for i := range len(text) {
		if !tokenBytes[text[i]] {
			return false
		}
	}
	return text != ""
}

func isFieldValue(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// parseLength accepts only decimal digits, because parsers disagree on signs, lists and hexadecimal numbers.
func parseLength(text string) (int64, bool) {
	if text == "" || len(text) > 18 {
		return 0, false
	}
	var length int64
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		length = 10*length + int64(text[i]-'0')
	}
	return length, true
}
