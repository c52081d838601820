package engine

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// With this score, the kernel kills machines before the service if memory runs out.
const machineScore = "500"

// A sandbox inherits hostd's OOM protection, which is removed here from the parents of all its processes.
func (e *Engine) setOOMScore(s *Sandbox) error {
	members, err := e.groups.Get(s.Slot).Procs()
	for _, pid := range members {
		failed := os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(machineScore), 0)
		if !errors.Is(failed, fs.ErrNotExist) && !errors.Is(failed, unix.ESRCH) { // other errors only: these two mean that the process has ended
			err = errors.Join(err, failed)
		}
	}
	return err
}
