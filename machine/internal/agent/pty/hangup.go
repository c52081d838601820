package pty

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/procfs"
)

// A shell with job control gives each of its jobs a process group of its own, so a terminal is ended by its session: all the
// groups that live in it. What has left it by setsid lives on.

// signalSession sends signals to every process group of the session that leader began.
func signalSession(leader int, signals ...unix.Signal) {
	groups := map[int]bool{leader: true}
	procfs.Visit(func(_ int, read func(file string) ([]byte, error)) {
		line, err := read("stat")
		if group, session, ok := groupOf(line); err == nil && ok && session == leader {
			groups[group] = true
		}
	})
	for group := range groups {
		for _, s := range signals {
			_ = unix.Kill(-group, s) // ESRCH: it has ended by itself
		}
	}
}

// groupOf reads process group and session from a stat line: pid (name) state parent group session … The name is whatever
// the process says, brackets and line breaks included, so what counts begins behind the last bracket.
func groupOf(stat []byte) (group, session int, ok bool) {
	at := bytes.LastIndexByte(stat, ')')
	if at < 0 {
		return 0, 0, false
	}
	fields := bytes.Fields(stat[at+1:])
	if len(fields) < 4 {
		return 0, 0, false
	}
	group, err1 := strconv.Atoi(string(fields[2]))
	session, err2 := strconv.Atoi(string(fields[3]))
	// Groups 0 and 1, negated, mean "mine" and "everyone" to kill.
	return group, session, err1 == nil && err2 == nil && group > 1 && session > 1
}
