package processes

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/berth-dev/berth/machine/internal/wire"
)

const line = "42 (a) (b c) S 7 42 40 0 0 0 0 0 0 0 150 25 0 0 20 0 3 0 12345 1000000 200 0\n"

func TestAStatLineIsReadBehindTheLastParenthesis(t *testing.T) {
	got, err := parseStat([]byte(line))
	want := stat{pid: 42, ppid: 7, sid: 40, name: "a) (b c", state: 'S', threads: 3, cpuTicks: 175, startTicks: 12345, residentPages: 200}
	if err != nil || got != want {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestWhatIsNoStatLineIsRefused(t *testing.T) {
	for _, bad := range []string{
		"", "42", "42 (a", "(a) S", ") (", "42 (a) S 7", "-1" + line[2:], "x" + line, strings.Replace(line, " S ", " SS ", 1),
		strings.Replace(line, " 150 ", " -150 ", 1), strings.Replace(line, " 200 ", " 99999999999999999999 ", 1),
		strings.Replace(line, " 12345 ", " 9223372036854775807 ", 1),
	} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

func TestACommandLineIsBoundedAndUTF8(t *testing.T) {
	command, truncated := parseCommand([]byte("a\x00\x00b\xffc\x1b[2J\x00"))
	if strings.Join(command, "|") != "a||b\uFFFDc\x1b[2J" || truncated {
		t.Fatalf("%q %v", command, truncated)
	}
	command, truncated = parseCommand([]byte(strings.Repeat("x", 1<<20)))
	if len(command) != 1 || len(command[0]) != wire.ProcessCommandBytesMax || !truncated {
		t.Fatalf("%d words, %v", len(command), truncated)
	}
	if command, truncated = parseCommand(nil); command == nil || len(command) != 0 || truncated {
		t.Fatalf("a zombie has %q", command)
	}
}

func TestUIDAndBootTimeAreFoundOrRefused(t *testing.T) {
	if uid, ok := parseUID([]byte("Name:\tUid:\nUid:\t1\t1000\t2\t3\n")); !ok || uid != 1000 {
		t.Fatal(uid, ok)
	}
	if _, ok := parseUID([]byte("Uid:\tx\ty\n")); ok {
		t.Fatal("a uid that is no number")
	}
	if at, ok := parseBootTime([]byte("cpu 1 2\nbtime 1700000000\n")); !ok || !at.Equal(time.Unix(1700000000, 0)) {
		t.Fatal(at, ok)
	}
	if _, ok := parseBootTime([]byte("btime 99999999999999999999\n")); ok {
		t.Fatal("a time that does not fit")
	}
}

func TestAProcessBelongsToTheSessionOfItsLeader(t *testing.T) {
	stats := map[int]stat{
		10: {pid: 10, ppid: 0, sid: 10}, 11: {pid: 11, ppid: 10, sid: 10}, // child
		12: {pid: 12, ppid: 11, sid: 12},                                   // left the session by setsid; its parents live
		13: {pid: 13, ppid: 1, sid: 10},                                    // parent has ended
		14: {pid: 14, ppid: 1, sid: 14},                                    // a daemon
		20: {pid: 20, ppid: 21, sid: 20}, 21: {pid: 21, ppid: 20, sid: 21}, // invalid: a cycle
	}
	for pid, want := range map[int]string{10: "s", 11: "s", 12: "s", 13: "s", 14: "", 20: ""} {
		got := ""
		if id := sessionOf(stats[pid], stats, map[int]string{10: "s"}); id != nil {
			got = *id
		}
		if got != want {
			t.Errorf("%d belongs to %q, not %q", pid, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(line))
	f.Add([]byte("Uid:\t0\t0\t0\t0\n"))
	f.Add([]byte("btime 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseStat(b); err == nil {
			if s.pid < 1 || s.ppid < 0 || s.cpuTicks < 0 || s.residentPages < 0 || s.startTicks < 0 || !utf8.ValidString(s.name) {
				t.Errorf("%q: %+v", b, s)
			}
		}
		command, _ := parseCommand(b)
		if !utf8.ValidString(strings.Join(command, "")) {
			t.Errorf("%q: %q", b, command)
		}
		parseUID(b)
		parseBootTime(b)
	})
}
