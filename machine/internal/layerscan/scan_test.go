package layerscan

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/layers"
	"github.com/berth-dev/berth/machine/internal/secretscan"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const secret = "key = AKIA" + "QWERTYUIOPASDF23\n"

func files(t *testing.T, content map[string]string) *os.File {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func scanOf(root *os.File, step time.Duration) *scan {
	used, began := time.Duration(0), time.Now()
	return &scan{root: root, entriesMax: 100, budget: newBudget(func() time.Duration { used += step; return used }, func() time.Time { return began })}
}

func TestFindingsAreInTheOrderOfTheirPathsAndWhatIsDroppedIsNotLookedAt(t *testing.T) {
	root := files(t, map[string]string{"z": secret, "a/b": "\n\n" + secret, "m": "nothing", "tmp/x": secret, "log": "", "a/c": secret})
	if err := unix.Mkfifo(filepath.Join(root.Name(), "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/shadow", filepath.Join(root.Name(), "link")); err != nil {
		t.Fatal(err)
	}
	dropped, err := layers.ParseDropped([]string{"/tmp/"})
	if err != nil {
		t.Fatal(err)
	}
	found := scanOf(root, 0).all(dropped)
	if got := fmt.Sprint(found); got != "[{/a/b aws_access_key 3} {/a/c aws_access_key 1} {/z aws_access_key 1}]" {
		t.Error(got)
	}
}

func TestAFileThatTakesTooLongIsSaidToBeNotScannedAndTheRestIsScanned(t *testing.T) {
	long := strings.Repeat("x = y\n", secretscan.BytesMax/6)
	root := files(t, map[string]string{"long": secret + long, "other": secret})
	found := scanOf(root, 20*time.Millisecond).all(layers.Dropped{})
	if len(found) != 3 || found[0] != (wire.LayerFinding{Path: "/long", Rule: "aws_access_key", Line: 1}) ||
		found[1].Path != "/long" || found[1].Rule != wire.FindingNotScanned || found[1].Line < 2 || found[2].Path != "/other" {
		t.Errorf("%v", found)
	}
}

func TestAScanEndsAtTheBoundsOfALayerAndSaysSo(t *testing.T) {
	content := map[string]string{}
	for i := range 20 {
		content[fmt.Sprintf("f%d", i)] = "nothing"
	}
	root := files(t, content)
	for what, change := range map[string]func(*scan){
		"processor": func(s *scan) { s.budget.used = func() time.Duration { return LayerProcessorTime } },
		"time":      func(s *scan) { s.budget.began = s.budget.began.Add(-LayerTime) },
		"entries":   func(s *scan) { s.entriesMax = 10 },
		"bytes":     func(s *scan) { s.bytes = bytesMax + 1 },
	} {
		s := scanOf(root, 0)
		change(s)
		if found := s.all(layers.Dropped{}); len(found) != 1 || found[0].Rule != wire.FindingNotScanned {
			t.Errorf("%s: %v", what, found)
		}
	}
	s := scanOf(root, 0)
	s.found = make([]wire.LayerFinding, wire.LayerFindingsMax+3)
	trimmed := s.trimmed("last", nil)
	if len(trimmed) != wire.LayerFindingsMax || trimmed[wire.LayerFindingsMax-1] != finding("last", wire.FindingTooManyFindings, 1) {
		t.Errorf("of too many findings %d are told", len(trimmed))
	}
}

func TestTheMemoryOfAScanIsBounded(t *testing.T) {
	const (
		names    = unix.PathMax / 2 * (64*(255+48) + 8<<10) // of a walk: at each level a batch of names and Go's buffer
		findings = wire.LayerFindingsMax * (unix.PathMax + 64)
		answer   = 2 * wire.LayerFindingsMax * (6*unix.PathMax + 256)
	)
	if total := secretscan.BytesMax + names + findings + answer; total > MemoryBytesMax*3/4 {
		t.Errorf("%d MiB may be held, the limit is %d", total>>20, MemoryBytesMax>>20)
	}
}
