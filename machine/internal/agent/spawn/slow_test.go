package spawn

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestAWorkerThatAnswersTooLateIsFreeAgain(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(pair[:])
	tune(pair)
	late := 0
	s := &Spawner{free: make(chan workerConn, 1), OnLate: func(pid int) { late = pid }}
	if _, err := unix.Write(pair[1], bytesOf(&reply{pid: 4711, stage: StageSpawned})); err != nil {
		t.Fatal(err)
	}
	s.awaitLate(workerConn{socket: pair[0], name: workerName(0)})
	if late != 4711 || len(s.free) != 1 {
		t.Fatalf("%d is to be ended, %d workers are free", late, len(s.free))
	}
}
