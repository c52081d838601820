// Package secretscan looks for what looks like a secret in files that are to be given to others. It says where, and never what.
package secretscan

import (
	"bytes"
	"math"
	"path"
	"strings"
)

// Finding is the first line of a file on which a rule holds.
type Finding struct {
	Rule string
	Line int
}

const (
	// BytesMax of a file are looked at.
	BytesMax = 4 << 20
	lineMax  = 16 << 10 // of a longer line, what is around the word
	binary   = 8 << 10  // a NUL in so many first bytes makes a file a binary one
	hitsMax  = 2000     // words that one rule looks at in a file
)

// Scan looks at the text of one file. It finds nothing in a binary file, which has no lines.
func Scan(name string, text []byte) (found []Finding) {
	text = text[:min(len(text), BytesMax)]
	isBinary := bytes.IndexByte(text[:min(len(text), binary)], 0) >= 0
	if isBinary {
		return nil
	}
	small := bytes.ToLower(text)
	if len(small) != len(text) { // a letter that has another length in small: words are looked for as they are
		small = text
	}
	noisy := isNoisy(name)
	seen := map[string]bool{}
	for _, rule := range rules {
		if seen[rule.name] || rule.generic && noisy {
			continue
		}
		if at := rule.first(text, small); at >= 0 {
			seen[rule.name] = true
			found = append(found, Finding{Rule: rule.name, Line: 1 + bytes.Count(text[:at], []byte("\n"))})
		}
	}
	return found
}

// first is where the rule holds at first; -1: nowhere.
func (r rule) first(text, small []byte) int {
	first := -1
	for _, word := range r.words {
		if at := r.firstAt(text, small, []byte(word)); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

func (r rule) firstAt(text, small, word []byte) int {
	from := 0
	for range hitsMax {
		next := bytes.Index(small[from:], word)
		if next < 0 {
			return -1
		}
		at := from + next
		start, end := lineAround(text, at)
		if r.holds(text[start:end]) {
			return at
		}
		from = max(end, at+len(word))
		if from >= len(small) {
			return -1
		}
	}
	return -1
}

func (r rule) holds(line []byte) bool {
	for _, match := range r.expression.FindAllSubmatch(line, 20) {
		value := match[0]
		if len(match) > 1 {
			value = match[1]
		}
		if r.entropyMin == 0 || (entropy(value) >= r.entropyMin && !isPlaceholder(value) && (!r.generic || isMixed(value))) {
			return true
		}
	}
	return false
}

func lineAround(text []byte, at int) (start, end int) {
	start = bytes.LastIndexByte(text[:at], '\n') + 1
	if next := bytes.IndexByte(text[at:], '\n'); next >= 0 {
		end = at + next
	} else {
		end = len(text)
	}
	return max(start, at-lineMax/2), min(end, at+lineMax/2)
}

// entropy in bits a character.
func entropy(value []byte) float64 {
	var counts [256]int
	for _, char := range value {
		counts[char]++
	}
	bits := 0.0
	for _, count := range counts {
		if count > 0 {
			share := float64(count) / float64(len(value))
			bits -= share * math.Log2(share)
		}
	}
	return bits
}

// isMixed tells a random value from words and paths. A random value has letters and digits and few separators.
func isMixed(value []byte) bool {
	digits, letters, separators := 0, 0, 0
	for _, char := range value {
		switch {
		case char >= '0' && char <= '9':
			digits++
		case char >= 'a' && char <= 'z' || char >= 'A' && char <= 'Z':
			letters++
		default:
			separators++
		}
	}
	return digits >= 2 && letters >= 2 && separators*4 <= len(value)
}

var placeholders = []string{"example", "xxxx", "changeme", "change-me", "change_me", "placeholder", "your", "dummy", "sample", "redacted", "${", "{{", "<", "%(", "...",
	"****", "123456789", "abcdef0123", "process.env", "os.environ", "getenv", "sha256", "sha512", "sha384", "undefined"}

func isPlaceholder(value []byte) bool {
	small := strings.ToLower(string(value))
	for _, word := range placeholders {
		if strings.Contains(small, word) {
			return true
		}
	}
	return false
}

// isNoisy names files that others have made, which are full of words and digests: only the shapes of providers are looked for in them.
func isNoisy(name string) bool {
	for _, part := range []string{"/node_modules/", "/site-packages/", "/dist-packages/", "/vendor/", "/.git/", "/usr/", "/var/lib/", "/opt/", "/.cargo/", "/.rustup/", "/go/pkg/",
		"/locale/", "/testdata/", "/.npm/", "/lib/", "/boot/"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	base := path.Base(name)
	for _, ending := range []string{".lock", "-lock.json", "-lock.yaml", ".sum", ".min.js", ".map", ".svg", ".css", ".po", ".md5sums", ".sha256", ".ipynb"} {
		if strings.HasSuffix(base, ending) {
			return true
		}
	}
	return false
}
