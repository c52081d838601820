package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func openInput(t *testing.T, line, first string) *Session {
	t.Helper()
	r := withInput(request(t.Name(), line), first)
	r.StdinOpen = true
	s, _, err := open(t, t.TempDir(), 0).Start(r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func taken(t *testing.T, s *Session, offset int64, text string, last bool) wire.Stdin {
	t.Helper()
	at, err := s.Take(context.Background(), offset, []byte(text), last)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func printedBy(t *testing.T, s *Session) (string, wire.ExecRecord) {
	t.Helper()
	stdout, last, _ := result(t, s)
	var r wire.ExecRecord
	if err := json.Unmarshal(last, &r); err != nil {
		t.Fatal(err)
	}
	return stdout, r
}

func reasonOf(err error) (reason string, offset any) {
	var f *fail.Error
	if errors.As(err, &f) {
		return f.Reason, f.Details["stdin_offset"]
	}
	return "", nil
}

func TestStdinStaysOpenUntilItIsClosed(t *testing.T) {
	s := openInput(t, "cat", "first ")
	if at := taken(t, s, 6, "second ", false); at != (wire.Stdin{Offset: 13, Open: true}) {
		t.Fatalf("%+v", at)
	}
	if r := s.Record(); r.Stdin == nil || *r.Stdin != (wire.Stdin{Offset: 13, Open: true}) {
		t.Fatalf("%+v", r.Stdin)
	}
	if at := taken(t, s, 13, "last", true); at != (wire.Stdin{Offset: 17}) {
		t.Fatalf("%+v", at)
	}
	out, record := printedBy(t, s)
	if out != "first second last" || *record.ExitCode != 0 || *record.Stdin != (wire.Stdin{Offset: 17}) {
		t.Fatalf("%q %+v", out, record)
	}
}

func TestBytesThatWereTakenAreNotWrittenAgain(t *testing.T) {
	s := openInput(t, "cat", "")
	taken(t, s, 0, "abc", false)
	taken(t, s, 0, "abc", false)
	taken(t, s, 1, "bcde", true)
	if at := taken(t, s, 1, "bcde", true); at != (wire.Stdin{Offset: 5}) {
		t.Fatalf("a repeat of the last: %+v", at)
	}
	if out, _, _ := result(t, s); out != "abcde" {
		t.Fatalf("%q", out)
	}
	if at := taken(t, s, 0, "abcde", false); at != (wire.Stdin{Offset: 5}) {
		t.Fatalf("a repeat after the end: %+v", at)
	}
}

func TestAGapAndAClosedStdinAreRefusedWithTheOffsetThatWasReached(t *testing.T) {
	s := openInput(t, "exec <&-; echo closed; read x < "+t.TempDir()+"; sleep 100", "")
	if _, err := s.Take(context.Background(), 1, []byte("x"), false); err == nil {
		t.Fatal("a gap was taken")
	} else if reason, at := reasonOf(err); reason != "stdin_gap" || at != int64(0) {
		t.Fatal(err, at)
	}
	for until := time.Now().Add(testns.Patience(time.Minute)); ; {
		_, err := s.Take(context.Background(), s.Record().Stdin.Offset, []byte("x"), false)
		if reason, at := reasonOf(err); reason == "stdin_closed" && at == s.Record().Stdin.Offset {
			break
		}
		if time.Now().After(until) {
			t.Fatal("a pipe that nobody reads takes more and more: ", err)
		}
	}
	plain, _, err := open(t, t.TempDir(), 0).Start(request("plain", "sleep 100"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Take(context.Background(), 0, nil, false); err == nil {
		t.Fatal("a stdin that was not asked to stay open took something")
	}
	if plain.Record().Stdin != nil {
		t.Fatal("it has one in its record")
	}
}

func TestACommandThatReadsNothingTakesAPartAndTheRestLater(t *testing.T) {
	flag := t.TempDir() + "/go"
	s := openInput(t, "while [ ! -e "+flag+" ]; do sleep 0.01; done; exec cat", "")
	data := strings.Repeat("0123456789abcdef", 16<<10) // 256 KiB: four pipe buffers
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	at, err := s.Take(short, 0, []byte(data), true)
	if err != nil || !at.Open || at.Offset == 0 || at.Offset >= int64(len(data)) {
		t.Fatalf("%+v %v", at, err)
	}
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(testns.Patience(time.Minute)); at.Open; {
		at = taken(t, s, 0, data, true)
		if time.Now().After(until) {
			t.Fatalf("%+v", at)
		}
	}
	if out, _, _ := result(t, s); out != data {
		t.Fatalf("%d bytes of %d, the same: %v", len(out), len(data), bytes.HasPrefix([]byte(data), []byte(out)))
	}
}

func TestTheEndOfACommandEndsAWriteThatWaits(t *testing.T) {
	s := openInput(t, "sleep 1; exit 3", strings.Repeat("x", 1<<20))
	_, record := printedBy(t, s)
	if *record.ExitCode != 3 || record.Stdin.Open || record.Stdin.Offset == 0 || record.Stdin.Offset >= 1<<20 {
		t.Fatalf("%+v %+v", record, record.Stdin)
	}
}
