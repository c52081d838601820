// Package secretscan finds likely secrets in text. It reports only rule and line, never the value.
package secretscan

import (
	"bytes"
	"math"
	"math/bits"
	"path"
	"strings"
)

// Finding is the first line on which a rule found a secret.
type Finding struct {
	Rule string
	Line int
}

const (
	BytesMax = 4 << 20
	// A long line is searched in windows that overlap by half, so that each match is complete in one of them.
	window     = 1 << 10
	step       = window / 2
	binary     = 8 << 10 // a NUL within this many bytes marks a binary file
	matchesMax = 20
	// stop is called after this many bytes.
	pieceBytes = 16 << 10
)

// Scan skips binary files. Its time is linear: each byte is read once for all words, and a rule reads each window at
// most once. stopped is the line at which stop ended the scan, or 0.
func Scan(name string, text []byte, stop func() bool) (found []Finding, stopped int) {
	s := newScan(name, stop)
	s.read(text[:min(len(text), BytesMax)])
	if s.stopped {
		stopped = s.line
	}
	return s.found, stopped
}

func newScan(name string, stop func() bool) *scan {
	s := &scan{stop: stop, wanted: everyRule, line: 1}
	if isNoisy(name) {
		s.wanted &^= genericRules
	}
	return s
}

func (s *scan) read(text []byte) {
	if bytes.IndexByte(text[:min(len(text), binary)], 0) >= 0 {
		return
	}
	for {
		line, rest, more := bytes.Cut(text, []byte("\n"))
		s.readLine(line)
		if s.stopped || !more {
			return
		}
		text = rest
		s.line++
	}
}

type scan struct {
	stop    func() bool
	stopped bool
	wanted  ruleSet // rules that have found nothing yet; each reports once
	found   []Finding
	line    int
	unasked int // bytes since the last call of stop
	looked  int // bytes that were matched with expressions
}

var everyRule, genericRules = sets()

func sets() (every, generic ruleSet) {
	for i, rule := range rules {
		every |= 1 << i
		if rule.generic {
			generic |= 1 << i
		}
	}
	return every, generic
}

func (s *scan) readLine(line []byte) {
	var before ruleSet // rules whose words ended in the previous half
	state := uint16(0)
	for start := 0; start < len(line); start += step {
		half := line[start:min(start+step, len(line))]
		var here ruleSet
		for _, char := range half {
			state = words.next[state][char]
			here |= words.rules[state]
		}
		end := start + len(half)
		// A window ends with the second half, unless the line is shorter than one half.
		if start > 0 || end == len(line) {
			s.look(line, max(0, start-step), end, before|here)
		}
		before = here
		if s.ask(len(half)); s.stopped {
			return
		}
	}
}

func (s *scan) ask(read int) {
	if s.unasked += read + 1; s.unasked >= pieceBytes {
		s.unasked, s.stopped = 0, s.stop()
	}
}

func (s *scan) look(line []byte, start, end int, by ruleSet) {
	for by &= s.wanted; by != 0 && !s.stopped; by &= by - 1 {
		at := bits.TrailingZeros64(uint64(by))
		s.looked += end - start
		s.ask(end - start)
		if rules[at].holds(line, start, end) {
			s.found = append(s.found, Finding{Rule: rules[at].name, Line: s.line})
			s.wanted &^= sameName[at]
			by &= s.wanted | 1<<at
		}
	}
}

var sameName = func() (same [64]ruleSet) {
	for i := range rules {
		for j := range rules {
			if rules[i].name == rules[j].name {
				same[i] |= 1 << j
			}
		}
	}
	return same
}()

// A match at a window's edge may be incomplete, so it is ignored. Another window contains it completely.
func (r rule) holds(line []byte, start, end int) bool {
	for _, match := range r.expression.FindAllSubmatchIndex(line[start:end], matchesMax) {
		if match[0] == 0 && start > 0 || match[1] == end-start && end < len(line) {
			continue
		}
		value := line[start+match[0] : start+match[1]]
		if len(match) > 2 {
			value = line[start+match[2] : start+match[3]]
		}
		if r.entropyMin == 0 || (entropy(value) >= r.entropyMin && !isPlaceholder(value) && (!r.generic || isMixed(value))) {
			return true
		}
	}
	return false
}

// entropy is in bits per character.
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

// isMixed excludes words and paths, which have few digits or many separators.
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

// isNoisy recognizes third-party files, which contain many of the words and digests that are no secrets.
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
