package onepage

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestTextsReplaceEachOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	for _, text := range []string{"first", "a longer one", "short", strings.Repeat("x", pageBytes), strings.Repeat("y", pageBytes+1), "short again", ""} {
		if err := Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		found, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimRight(string(found), " "); got != text {
			t.Errorf("after %d bytes the file holds %d: %.20q", len(text), len(got), got)
		}
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestAnEarlierFileOfAnotherSizeIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte("of an earlier version"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	found, err := os.ReadFile(path)
	if err != nil || string(bytes.TrimSpace(found)) != "new" {
		t.Errorf("found %.40q, %v", found, err)
	}
}

// Write replaces the text in place, because a rename would wait for the disk.
func TestAPageIsRewrittenWhereItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	inode := func() uint64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Ino
	}
	if err := Write(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	before := inode()
	if err := Write(path, []byte("two")); err != nil {
		t.Fatal(err)
	}
	if after := inode(); after != before {
		t.Errorf("the file is another one: %d, then %d", before, after)
	}
}
