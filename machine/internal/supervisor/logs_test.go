package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestALogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	if err := os.WriteFile(path, []byte(strings.Repeat("a", 100)+strings.Repeat("b", 50)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := boundLog(path, 50); err != nil {
		t.Fatal(err)
	}
	kept, _ := os.ReadFile(path + ".1")
	now, _ := os.ReadFile(path)
	if string(kept) != strings.Repeat("b", 50) || len(now) != 0 {
		t.Fatalf("%q %q", kept, now)
	}
}
