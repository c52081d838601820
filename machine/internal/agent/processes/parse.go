// Package processes reads the guest's own /proc. It is untrusted, because programs choose their names, and root may
// mount another file system there.
package processes

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	ticksPerSecond = 100 // USER_HZ, 100 on every Linux
	pageBytes      = 4096
	nameBytesMax   = 64
)

var errMalformed = errors.New("processes: malformed")

type stat struct {
	pid, ppid, sid int
	name           string
	state          byte
	threads        int
	cpuTicks       int64
	startTicks     int64
	residentPages  int64
}

// Indices of the fields after the process's name.
const (
	atState     = 0
	atPPID      = 1
	atSession   = 3
	atUserTime  = 11
	atSystem    = 12
	atThreads   = 17
	atStart     = 19
	atResident  = 21
	fieldsInUse = 22
)

// The process's name may contain spaces and parentheses, so it ends at the last ")".
func parseStat(line []byte) (s stat, err error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return s, errMalformed
	}
	fields := strings.Fields(string(line[end+1:]))
	if len(fields) < fieldsInUse || len(fields[atState]) != 1 {
		return s, errMalformed
	}
	n := numbers{}
	s.pid = n.small(strings.TrimSpace(string(line[:open])))
	s.name = text(line[open+1:end], nameBytesMax)
	s.state = fields[atState][0]
	s.ppid, s.sid, s.threads = n.small(fields[atPPID]), n.small(fields[atSession]), n.small(fields[atThreads])
	user, system := n.large(fields[atUserTime]), n.large(fields[atSystem])
	s.cpuTicks = user + system
	s.startTicks, s.residentPages = n.large(fields[atStart]), n.large(fields[atResident])
	if n.bad || s.pid < 1 {
		return stat{}, errMalformed
	}
	return s, nil
}

type numbers struct{ bad bool }

func (n *numbers) small(field string) int {
	v, err := strconv.ParseInt(field, 10, 32)
	n.bad = n.bad || err != nil || v < 0
	return int(v)
}

// Values up to largeMax, times a page or a tick, fit into the 53 bits of JSON readers.
const largeMax = 1 << 40

func (n *numbers) large(field string) int64 {
	v, err := strconv.ParseInt(field, 10, 64)
	n.bad = n.bad || err != nil || v < 0 || v > largeMax
	return v
}

// parseUID returns the effective uid.
func parseUID(status []byte) (uint32, bool) {
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("Uid:")); ok {
			fields := bytes.Fields(rest)
			if len(fields) < 2 {
				return 0, false
			}
			uid, err := strconv.ParseUint(string(fields[1]), 10, 32)
			return uint32(uid), err == nil
		}
	}
	return 0, false
}

func parseBootTime(stat []byte) (time.Time, bool) {
	for line := range bytes.Lines(stat) {
		if rest, ok := bytes.CutPrefix(line, []byte("btime ")); ok {
			seconds, err := strconv.ParseInt(string(bytes.TrimSpace(rest)), 10, 36)
			return time.Unix(seconds, 0), err == nil && seconds >= 0
		}
	}
	return time.Time{}, false
}

// A program may overwrite its command line with anything, so the text is limited and made valid.
func parseCommand(line []byte) (command []string, truncated bool) {
	if len(line) > wire.ProcessCommandBytesMax {
		line, truncated = line[:wire.ProcessCommandBytesMax], true
	}
	command = []string{}
	if len(line) == 0 {
		return command, truncated
	}
	for _, word := range bytes.Split(bytes.TrimSuffix(line, []byte{0}), []byte{0}) {
		command = append(command, text(word, len(word)))
	}
	return command, truncated
}

func text(b []byte, bytesMax int) string {
	if len(b) > bytesMax {
		b = b[:bytesMax]
	}
	if utf8.Valid(b) {
		return string(b)
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

func stateOf(letter byte) string {
	switch letter {
	case 'R':
		return "running"
	case 'S', 'I':
		return "sleeping"
	case 'D':
		return "waiting"
	case 'T':
		return "stopped"
	case 't':
		return "traced"
	case 'Z':
		return "zombie"
	case 'X', 'x':
		return "dead"
	}
	return "unknown"
}
