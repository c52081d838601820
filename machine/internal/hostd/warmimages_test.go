package hostd

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/engine"
)

func TestACopyIsReadFromWhatItWasCopiedFrom(t *testing.T) {
	source, target := t.TempDir(), t.TempDir()
	for _, name := range engine.ImageFiles {
		must(t, os.WriteFile(filepath.Join(source, name), []byte("of the source: "+name), 0o600))
		must(t, os.WriteFile(filepath.Join(target, name), []byte("of the copy: "+name), 0o600))
	}
	var warm warmImages
	first := func() string {
		files := warm.take(target)
		if files == nil {
			return ""
		}
		defer (&warmImage{files: files}).close()
		text := make([]byte, 100)
		n, _ := files[0].Read(text)
		return string(text[:n])
	}
	name := engine.ImageFiles[0]
	warm.keep(target, source)
	must(t, os.Remove(filepath.Join(source, name)))
	if got := first(); got != "of the source: "+name {
		t.Errorf("%q", got)
	}
	if got := first(); got != "" {
		t.Errorf("given twice: %q", got)
	}
	must(t, os.WriteFile(filepath.Join(source, name), []byte("again"), 0o600))
	warm.keep(target, source)
	must(t, os.WriteFile(filepath.Join(source, name), []byte("another content"), 0o600))
	if got := first(); got != "" {
		t.Errorf("what was written to since was given: %q", got)
	}
	must(t, os.WriteFile(filepath.Join(source, name), []byte("again"), 0o600))
	must(t, os.Chtimes(filepath.Join(source, name), time.Time{}, time.Now().Add(-time.Hour)))
	warm.keep(target, source)
	must(t, os.WriteFile(filepath.Join(source, name), []byte("other"), 0o600))
	if got := first(); got != "" {
		t.Errorf("what was written to since, as long as before, was given: %q", got)
	}
	warm.keep(target, source)
	warm.drop(target)
	if got := first(); got != "" {
		t.Errorf("given after it was dropped: %q", got)
	}
	warm.keep(target, filepath.Join(source, "missing"))
	for range warmMax + 5 {
		warm.keep(t.TempDir(), source)
	}
	if len(warm.known) != warmMax {
		t.Error(len(warm.known))
	}
	for target := range warm.known {
		warm.drop(target)
	}
}
