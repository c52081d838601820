package layers

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// Dropped is a set of paths that are omitted from a layer.
type Dropped struct {
	expressions []string
	any         *regexp.Regexp
}

// ParseDropped accepts absolute clean paths. A final "/" means a directory's content; "*" matches any part of one name.
func ParseDropped(patterns []string) (Dropped, error) {
	d := Dropped{}
	for _, pattern := range patterns {
		trimmed := strings.TrimSuffix(pattern, "/")
		if len(trimmed) < 2 || !strings.HasPrefix(pattern, "/") || path.Clean(trimmed) != trimmed || strings.ContainsAny(pattern, "\x00\n") {
			return d, fmt.Errorf("%q is not an absolute path: %w", pattern, unix.EINVAL)
		}
		parts := strings.Split(trimmed[1:], "*")
		for i, part := range parts {
			parts[i] = quoteExtended(part)
		}
		end := "(/|$)"
		if trimmed != pattern {
			end = "/."
		}
		d.expressions = append(d.expressions, "^"+strings.Join(parts, "[^/]*")+end)
	}
	if len(d.expressions) == 0 {
		return d, nil
	}
	any, err := regexp.Compile(strings.Join(d.expressions, "|"))
	d.any = any
	return d, err
}

// Holds reports whether a path is dropped. The path is relative to the root.
func (d Dropped) Holds(relative string) bool { return d.any != nil && d.any.MatchString(relative) }

func quoteExtended(text string) string {
	var quoted strings.Builder
	for _, char := range []byte(text) {
		if strings.IndexByte(`\.+*?()|[]{}^$`, char) >= 0 {
			quoted.WriteByte('\\')
		}
		quoted.WriteByte(char)
	}
	return quoted.String()
}
