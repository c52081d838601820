package once

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func open(t *testing.T, path string) *Log {
	t.Helper()
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func begin(t *testing.T, m *Log, key string) *KeyLock {
	t.Helper()
	turn, err := m.Lock(key, nil)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

func known(t *testing.T, m *Log, key string) *Record {
	t.Helper()
	turn := begin(t, m, key)
	defer turn.Unlock()
	return turn.Known()
}

func settle(t *testing.T, m *Log, key, request, result string) {
	t.Helper()
	turn := begin(t, m, key)
	defer turn.Unlock()
	if err := turn.Announce(request, "before", "after", nil); err != nil {
		t.Fatal(err)
	}
	if err := turn.Settle(request, result); err != nil {
		t.Fatal(err)
	}
}

func TestWhatWasDoneIsKnownToTheNextMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "writes")
	settle(t, open(t, path), "key", "request", "answer")
	got := known(t, open(t, path), "key")
	if got == nil || !got.Done() || got.Request != "request" || string(got.Result) != `"answer"` {
		t.Fatalf("%+v", got)
	}
}

func TestWhatWasOnlyAnnouncedIsToldApart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "writes")
	turn := begin(t, open(t, path), "key")
	if err := turn.Announce("request", "before", "after", nil); err != nil {
		t.Fatal(err)
	}
	// The machine dies here, before the change ends.
	got := known(t, open(t, path), "key")
	if got == nil || got.Done() || got.Before != "before" || got.After != "after" {
		t.Fatalf("%+v", got)
	}
}

func TestAChangeThatFailedLeavesTheKeyFree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "writes")
	m := open(t, path)
	turn := begin(t, m, "key")
	if err := turn.Announce("request", "", "", nil); err != nil {
		t.Fatal(err)
	}
	turn.Unlock()
	for _, m := range []*Log{m, open(t, path)} {
		if got := known(t, m, "key"); got != nil {
			t.Fatalf("%+v", got)
		}
	}
}

func TestATornLastLineIsCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "writes")
	settle(t, open(t, path), "a", "request", "answer")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"key":"b","sta`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	m := open(t, path)
	settle(t, m, "c", "request", "answer")
	m = open(t, path)
	for key, want := range map[string]bool{"a": true, "b": false, "c": true} {
		if got := known(t, m, key) != nil; got != want {
			t.Errorf("%s: %v", key, got)
		}
	}
}

func TestTheOldestKeysAreForgottenAndTheFileStaysSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "writes")
	m := open(t, path)
	answer := strings.Repeat("x", 2000)
	for i := range 6000 {
		m.mu.Lock()
		if bytes, err := m.log.append(Record{Key: fmt.Sprint(i), State: done, Result: []byte(`"` + answer + `"`)}, false); err != nil {
			t.Fatal(err)
		} else {
			m.remember(Record{Key: fmt.Sprint(i), State: done}, bytes)
		}
		m.mu.Unlock()
	}
	settle(t, m, "last", "request", "answer")
	info, err := os.Stat(path)
	if err != nil || info.Size() > 2*recordsBytesMax {
		t.Fatalf("%v %v", info.Size(), err)
	}
	if known(t, m, "0") != nil || known(t, m, "5999") == nil || known(t, m, "last") == nil {
		t.Fatal("not the oldest were forgotten")
	}
	for i := range recordsMax + 10 {
		m.mu.Lock()
		m.remember(Record{Key: fmt.Sprint("n", i), State: done}, 10)
		m.mu.Unlock()
	}
	if len(m.entries) != recordsMax || known(t, m, "last") != nil {
		t.Fatal(len(m.entries))
	}
}

func TestOfTwoUnderOneKeyTheSecondWaits(t *testing.T) {
	m := open(t, filepath.Join(t.TempDir(), "writes"))
	first := begin(t, m, "key")
	gone := make(chan struct{})
	close(gone)
	if _, err := m.Lock("key", gone); err == nil {
		t.Fatal("it did not wait")
	}
	got := make(chan *Record)
	go func() {
		turn, _ := m.Lock("key", nil)
		got <- turn.Known()
	}()
	if err := first.Settle("request", "answer"); err != nil {
		t.Fatal(err)
	}
	first.Unlock()
	if r := <-got; r == nil || !r.Done() {
		t.Fatalf("%+v", r)
	}
}

func FuzzReadLines(f *testing.F) {
	f.Add([]byte("{\"key\":\"a\",\"state\":\"done\"}\n{\"key\":\"b\""))
	f.Fuzz(func(t *testing.T, data []byte) {
		total := int64(0)
		n := readLines(strings.NewReader(string(data)), func(r Record, bytes int64) { total += bytes })
		if n != total || n > int64(len(data)) {
			t.Fatal(n, total)
		}
	})
}
