// Package secretscan looks for what looks like a secret in files that are to be given to others. It says where, and never what.
package secretscan

import (
	"bytes"
	"math"
	"math/bits"
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
	// A longer line is looked at in windows. Each begins in the middle of the one before, so that what a rule looks for lies whole in one of them.
	window = 1 << 10
	step   = window / 2
	binary = 8 << 10 // a NUL in so many first bytes makes a file a binary one
	// matchesMax of one rule are looked at in a window.
	matchesMax = 20
	// pieceBytes are read for words between two questions whether to stop.
	pieceBytes = 16 << 10
)

// Scan looks at the text of one file. It finds nothing in a binary file, which has no lines. Its time grows with the text alone: each byte is read
// once for all words, and each window is looked at once by a rule at most. Where stop says so it ends, and says on which line; 0: at no line.
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

// scan is of one file.
type scan struct {
	stop    func() bool
	stopped bool
	wanted  ruleSet // those that have found nothing yet
	found   []Finding
	line    int
	unasked int // bytes since stop was asked
	looked  int // bytes that expressions were given
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

// readLine finds the words of each half window, and has the rules look at a window when both its halves were read.
func (s *scan) readLine(line []byte) {
	var before ruleSet // whose words ended in the half before
	state := uint16(0)
	for start := 0; start < len(line); start += step {
		half := line[start:min(start+step, len(line))]
		var here ruleSet
		for _, char := range half {
			state = words.next[state][char]
			here |= words.rules[state]
		}
		end := start + len(half)
		// The first window of a line begins with its first half; one of a short line is the whole line.
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

// sameName are, for each rule, all that find the same.
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

// holds does not believe a match that the edge of a window may have cut: another window has it whole.
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
