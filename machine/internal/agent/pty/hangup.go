package pty

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/procfs"
)

// signalSession signals all process groups of a session, because a shell puts each job into its own group. Processes
// that left the session continue.

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
			_ = unix.Kill(-group, s) // ESRCH: the group has ended
		}
	}
}

// groupOf parses /proc/PID/stat. The process's name may contain anything, so parsing starts after the last ")".
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
	// kill treats 0 as the own group and -1 as all processes, so groups 0 and 1 are refused.
	return group, session, err1 == nil && err2 == nil && group > 1 && session > 1
}
