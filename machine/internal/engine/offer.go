package engine

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// machineScore is the oom_score_adj of a sandbox: where the whole computer has no memory left, machines end before anything else does.
const machineScore = "500"

// offer takes back the protection that a sandbox has inherited from hostd. At its creation it is two processes, from which all others
// of it come.
func (e *Engine) offer(s *Sandbox) error {
	members, err := e.groups.Get(s.Slot).Procs()
	for _, pid := range members {
		failed := os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(machineScore), 0)
		if !errors.Is(failed, fs.ErrNotExist) && !errors.Is(failed, unix.ESRCH) { // it has ended
			err = errors.Join(err, failed)
		}
	}
	return err
}
