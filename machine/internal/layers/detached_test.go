package layers

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAThreadThatEndsIsNeverTheFirst(t *testing.T) {
	thread, met := 0, make(chan struct{})
	onFirstThread <- func() {
		defer close(met)
		onEndingThread(func() { thread = unix.Gettid() })
	}
	<-met
	if thread == 0 || thread == unix.Getpid() {
		t.Fatalf("it ran on thread %d of process %d", thread, unix.Getpid())
	}
}

func TestADetachedMountIsReadThroughItsDescriptorAndLeavesNoNamespaceBehind(t *testing.T) {
	top, bottom, point := t.TempDir(), t.TempDir(), t.TempDir()
	must(t, os.WriteFile(bottom+"/name", []byte("one"), 0o600))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := os.Readlink("/proc/thread-self/ns/mnt")
	must(t, err)
	disk, err := Detached([]string{top, bottom}, point)
	must(t, err)
	defer disk.Close()
	fd, err := unix.Openat(int(disk.Fd()), "name", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	must(t, unix.Close(fd))
	for _, self := range []string{"self", "thread-self"} {
		if after, err := os.Readlink("/proc/" + self + "/ns/mnt"); after != before || err != nil {
			t.Errorf("/proc/%s is in %s, not in %s: %v", self, after, before, err)
		}
	}
}
