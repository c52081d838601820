package record

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

type of struct {
	State string `json:"state"`
}

func TestTheLastWholeLineCountsWithTheFingerprintOfTheFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	f, err := Create(path, Line[of]{"print", of{Starting}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := Create(path, Line[of]{}); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("a second record of the name: %v", err)
	}
	if err := Append(f, Line[of]{Record: of{Exited}}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"record":{"state":"torn`); err != nil {
		t.Fatal(err)
	}
	if last, err := Last[of](path); err != nil || last != (Line[of]{"print", of{Exited}}) {
		t.Fatalf("%+v, %v", last, err)
	}
	if err := os.Truncate(path, 5); err != nil {
		t.Fatal(err)
	}
	if last, err := Last[of](path); err != nil || last != (Line[of]{}) {
		t.Fatalf("of a torn first line: %+v, %v", last, err)
	}
}

func TestAnEndIsACodeOrASignal(t *testing.T) {
	if code, signal := Exit(unix.WaitStatus(3 << 8)); *code != 3 || signal != nil {
		t.Fatal(*code, signal)
	}
	if code, signal := Exit(unix.WaitStatus(unix.SIGKILL)); *code != -1 || *signal != "SIGKILL" {
		t.Fatal(*code, *signal)
	}
}
