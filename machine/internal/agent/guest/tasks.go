package guest

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// The guest's /sys is bound without submounts, so it does not see this. On the sandbox's disk, a restore in another
// sandbox would miss the mount point.
const tasksDir = "/sys/fs/cgroup"

const spawnerTasks = 24

// Polling is too slow: five hundred runnable tasks leave the agent hardly any CPU. Each costs memory outside of the
// guest's accounting.
type taskLimit struct{ group string }

// Commands join the group because the spawner has.
func newTaskLimit() (*taskLimit, error) {
	if err := unix.Mount("none", tasksDir, "cgroup", 0, "pids"); err != nil {
		return nil, &os.PathError{Op: "mount", Path: tasksDir, Err: err}
	}
	group := tasksDir + "/guest"
	if err := os.Mkdir(group, 0o700); err != nil {
		return nil, err
	}
	return &taskLimit{group: group}, nil
}

func (l *taskLimit) set(tasks int) error {
	return os.WriteFile(l.group+"/pids.max", []byte(strconv.Itoa(tasks+spawnerTasks)), 0)
}

func (l *taskLimit) enter(pid int) error {
	return os.WriteFile(l.group+"/cgroup.procs", []byte(strconv.Itoa(pid)), 0)
}
