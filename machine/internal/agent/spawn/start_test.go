package spawn

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/testns"
)

// Prepares the Go runtime, whose memory the child shares until execve.
func startHere(t *testing.T, c *Command) reply {
	t.Helper()
	program, err := programOf(c)
	if err != nil {
		t.Fatal(err)
	}
	memory := make([]uint64, (len(program)+7)/8)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&memory[0])), len(program)), program)
	h := (*header)(unsafe.Pointer(&memory[0]))
	h.clone &^= unix.CLONE_PARENT // a child of this process, reaped here
	h.exitSignal = uint64(unix.SIGCHLD)
	f := &fork{descriptors: [descriptorsPassedMax]int32{int32(c.Stdout), int32(c.Stderr), -1}}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtimeBeforeFork()
	answer := f.start(uintptr(unsafe.Pointer(h)))
	runtimeAfterFork()
	runtime.KeepAlive(memory)
	return answer
}

func churn() (stop func()) {
	ended := make(chan struct{})
	var all sync.WaitGroup
	var grow func(n int) int
	grow = func(n int) int {
		var frame [512]byte
		frame[n%512] = byte(n)
		if n == 0 {
			return int(frame[0])
		}
		return grow(n-1) + int(frame[n%512])
	}
	all.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
				go grow(200)
				_ = make([]byte, 1<<16)
				runtime.Gosched()
			}
		}
	})
	return func() {
		close(ended)
		all.Wait()
	}
}

func TestOfManyStartsEachIsToldAsItIs(t *testing.T) {
	testns.Needs(t) // children drop root
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	forbidden := filepath.Join(dir, "forbidden")
	if err := os.WriteFile(forbidden, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	command := func(program, cwd string) *Command {
		return &Command{Argv: []string{program, "a", ""}, Env: []string{"A=1"}, Cwd: cwd, Path: "/nowhere:/usr/bin:/bin", UID: 65534, GID: 65534,
			Groups: []uint32{65534, 100}, ProcessesMax: 100000, Stdin: -1, Stdout: int(null.Fd()), Stderr: int(null.Fd())}
	}
	kinds := []struct {
		command *Command
		stage   uint32
		errno   syscall.Errno
		code    int
	}{
		{command("true", "/"), StageSpawned, 0, 0},
		{command("false", "/"), StageSpawned, 0, 1},
		{command("no-such-program", "/"), StageExec, unix.ENOENT, 127},
		{command(forbidden, "/"), StageExec, unix.EACCES, 127},
		{command("true", "/nowhere"), StageCwd, unix.ENOENT, 127},
	}
	calm := sync.OnceFunc(churn())
	defer calm()
	starts := testns.Depth(2000, 10_000)
	for i := range starts {
		if i == starts/5 {
			calm() // the others run without load
		}
		kind := kinds[2+i%3]
		if i%10 < 2 {
			kind = kinds[i%10]
		}
		answer := startHere(t, kind.command)
		if answer.stage != kind.stage || answer.errno != uint32(kind.errno) || answer.pid <= 0 {
			t.Fatalf("start %d of %v answers %+v", i, kind.command.Argv, answer)
		}
		var status unix.WaitStatus
		if pid, err := unix.Wait4(int(answer.pid), &status, 0, nil); pid != int(answer.pid) || err != nil || status.ExitStatus() != kind.code {
			t.Fatalf("start %d of %v: %v, %#x", i, kind.command.Argv, err, status)
		}
	}
}
