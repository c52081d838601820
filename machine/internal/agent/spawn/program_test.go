package spawn

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

type loaded struct {
	memory []uint64
	h      *header
}

func load(program []byte) loaded {
	memory := make([]uint64, (len(program)+7)/8)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&memory[0])), len(program)), program)
	l := loaded{memory: memory, h: (*header)(unsafe.Pointer(&memory[0]))}
	relocate(l.h)
	return l
}

func (l loaded) from(address uintptr) ([]byte, bool) {
	base := uintptr(unsafe.Pointer(&l.memory[0]))
	all := unsafe.Slice((*byte)(unsafe.Pointer(&l.memory[0])), 8*len(l.memory))
	if address < base || address >= base+uintptr(len(all)) {
		return nil, false
	}
	return all[address-base:], true
}

func (l loaded) texts(t *testing.T, offset uint64) (list []string) {
	t.Helper()
	for at := offset / 8; ; at++ {
		if l.memory[at] == 0 {
			return list
		}
		text, ok := l.from(uintptr(l.memory[at]))
		end := bytes.IndexByte(text, 0)
		if !ok || end < 0 {
			t.Fatalf("a string lies at %x, outside", l.memory[at])
		}
		list = append(list, string(text[:end]))
	}
}

func checkProgram(t *testing.T, c *Command) {
	t.Helper()
	program, err := programOf(c)
	if err != nil {
		t.Fatal(err)
	}
	l := load(program)
	if argv, env := l.texts(t, l.h.argv), l.texts(t, l.h.env); !slices.Equal(argv, c.Argv) || !slices.Equal(env, c.Env) {
		t.Fatalf("argv %q env %q of %q %q", argv, env, c.Argv, c.Env)
	}
	candidates := []string(nil)
	if l.h.candidates != 0 {
		candidates = l.texts(t, l.h.candidates)
	}
	if want := candidatesOf(c.Argv[0], c.Path); !slices.Equal(candidates, want) {
		t.Fatalf("candidates %q, not %q", candidates, want)
	}
	for i := range l.h.steps {
		s := stepOf(l.h, i)
		for a := range s.args {
			if _, ok := l.from(s.args[a]); s.pointers&(1<<a) != 0 && !ok {
				t.Fatalf("step %d points outside", i)
			}
		}
		if s.nr == unix.SYS_CHDIR {
			if cwd, _ := l.from(s.args[0]); !bytes.HasPrefix(cwd, append([]byte(c.Cwd), 0)) {
				t.Fatalf("cwd %q", c.Cwd)
			}
		}
	}
}

func TestAProgramHoldsItsCommand(t *testing.T) {
	checkProgram(t, &Command{Argv: []string{"a", "", "b c"}, Env: []string{"A=1", "PATH="}, Cwd: "/x", Path: ":/bin:/usr/bin",
		UID: 1000, GID: 1000, Groups: []uint32{1, 2, 3}, ProcessesMax: 7, Stdin: -1})
	checkProgram(t, &Command{Argv: []string{"./a"}, Cwd: "/", Terminal: true})
	checkProgram(t, &Command{Argv: []string{""}, Cwd: "/"})
}

func TestWhatHoldsANULIsNoProgram(t *testing.T) {
	for _, c := range []*Command{{Argv: []string{"a\x00"}, Cwd: "/"}, {Argv: []string{"a"}, Cwd: "/\x00"}, {Argv: []string{"a"}, Env: []string{"\x00"}, Cwd: "/"}} {
		if _, err := programOf(c); err == nil {
			t.Errorf("%+v", c)
		}
	}
}

func FuzzAProgramHoldsItsCommand(f *testing.F) {
	f.Add("sh\n-c\ntrue", "A=1\nB=2", "/home/user", "/bin:/usr/bin", uint32(1000), byte(3))
	f.Add("", "", "", "", uint32(0), byte(0))
	f.Fuzz(func(t *testing.T, argv, env, cwd, path string, id uint32, groups byte) {
		if strings.ContainsRune(argv+env+cwd+path, 0) {
			return
		}
		checkProgram(t, &Command{Argv: strings.Split(argv, "\n"), Env: strings.Split(env, "\n"), Cwd: cwd, Path: path, UID: id, GID: id,
			Groups: make([]uint32, groups), ProcessesMax: uint64(id), Stdin: -1})
	})
}

func FuzzAReplyIsSixteenBytes(f *testing.F) {
	f.Add(bytesOf(&reply{pid: 1, guestPID: 2, stage: StageExec, errno: 2}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeReply(b)
		if (err == nil) != (len(b) == replyBytes) || err == nil && !bytes.Equal(bytesOf(&r), b) {
			t.Fatalf("% x: %+v %v", b, r, err)
		}
	})
}

func bytesOf(r *reply) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(r)), replyBytes) }
