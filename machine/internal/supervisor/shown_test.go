package supervisor

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatIsAddedToALogIsShownByWholeLinesAndOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api.log")
	var out bytes.Buffer
	var part shownLog
	step := func(text string, flags int, want string) {
		t.Helper()
		file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|flags, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		file.WriteString(text)
		file.Close()
		out.Reset()
		if err := part.show(path, "api", &out); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("after %q it showed %q, not %q", text, out.String(), want)
		}
	}
	step("one\ntw", os.O_APPEND, "api: one\n")
	step("", os.O_APPEND, "")
	step("o\n\nthree\n", os.O_APPEND, "api: two\napi: \napi: three\n")
	step("new\n", os.O_TRUNC, "api: new\n")
	long := strings.Repeat("x", shownLineMax+1)
	step(long, os.O_APPEND, "api: "+long[:shownLineMax]+"\n")
	step("y\n", os.O_APPEND, "api: xy\n")
}
