package hostd

import (
	"testing"
	"time"
)

func TestALockThatIsStillLetGoOfIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	first, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	released := time.AfterFunc(20*lockLookEvery, func() { first.Close() })
	defer released.Stop()
	second, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}
