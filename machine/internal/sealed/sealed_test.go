package sealed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNobodyCanChangeASealedFile(t *testing.T) {
	fd, err := FD("kept", []byte("as it is"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	again, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for name, change := range map[string]func() error{
		"write":  func() error { _, err := again.WriteAt([]byte("x"), 0); return err },
		"grow":   func() error { return again.Truncate(100) },
		"shrink": func() error { return again.Truncate(1) },
		"shared mapping": func() error {
			_, err := unix.Mmap(fd, 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			return err
		},
		"another seal": func() error { _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); return err },
	} {
		if err := change(); !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %v, not EPERM", name, err)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "as it is" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestASealedProgramRuns(t *testing.T) {
	program, err := os.ReadFile("/bin/echo")
	if err != nil {
		t.Fatal(err)
	}
	fd, err := FD("echo", program)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "echo")
	defer file.Close()
	command := &exec.Cmd{Path: "/proc/self/fd/3", Args: []string{"echo", "it", "runs"}, ExtraFiles: []*os.File{file}}
	if out, err := command.Output(); err != nil || string(out) != "it runs\n" {
		t.Errorf("%q, %v", out, err)
	}
}
