package files

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
)

func TestFactsAreOfWhatLiesThereAndNotBehindALink(t *testing.T) {
	base := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(base, "d"), 0o755))
	must(t, os.WriteFile(filepath.Join(base, "d/f"), []byte("four"), 0o640))
	must(t, os.Symlink("/etc/passwd", filepath.Join(base, "d/link")))
	must(t, os.Symlink("/etc", filepath.Join(base, "out")))
	must(t, os.Symlink("d", filepath.Join(base, "in")))
	root, err := guestroot.OpenDir(base)
	must(t, err)
	defer root.Release()
	paths := []string{"/d/f", "/d/link", "/out/passwd", "/in/f", "/d/f/below", "/absent", "/../d/f", "/d/f"}
	facts := FactsOf(root, paths)
	for i, want := range []string{"file 4 0640", "symlink 11 0777", "", "", "", "", "file 4 0640", "file 4 0640"} {
		got := ""
		if fact := facts[i]; fact != nil {
			got = fmt.Sprint(fact.Type, " ", fact.Size, " ", fact.Mode)
		}
		if got != want {
			t.Errorf("%s is %q, not %q", paths[i], got, want)
		}
	}
}
