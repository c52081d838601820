package reap

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestOfEndsThatNobodyAskedForTheOldestAreForgotten(t *testing.T) {
	r := &Reaper{handlers: map[int]func(unix.WaitStatus){}, early: map[int]early{}, poke: make(chan struct{}, 1)}
	told := func(pid int) (is bool) {
		r.Watch(pid, func(status unix.WaitStatus) { is = status.ExitStatus() == pid%200 })
		delete(r.handlers, pid)
		return is
	}
	const first, last = 1000, 1000 + 2*earlyMax
	for pid := first; pid <= last; pid++ {
		r.ended(pid, unix.WaitStatus(pid%200<<8))
		if pid%3 == 0 && !told(pid) {
			t.Fatalf("the end of %d was forgotten at once", pid)
		}
	}
	for pid := last - earlyMax*3/2 + 100; pid <= last; pid++ { // no Watch for two of three
		if pid%3 != 0 && !told(pid) {
			t.Fatalf("the end of %d was forgotten before older ones", pid)
		}
	}
	if told(first) || told(last) || len(r.early) > earlyMax {
		t.Fatal("an end was told twice, or nothing was ever forgotten")
	}
}
