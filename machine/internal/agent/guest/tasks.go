package guest

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// tasksDir is where the agent mounts the sandbox kernel's own pids controller. The guest's /sys is bound without what is
// mounted below it, so the guest does not see it there. It may not lie on the slot's disk: a restore looks for the mount
// point in another slot.
const tasksDir = "/sys/fs/cgroup"

// spawnerTasks is how many threads of a spawner and its workers count against the guest.
const spawnerTasks = 24

// taskLimit bounds the number of the guest's tasks in the sandbox's kernel. Nothing that polls can: five hundred runnable
// tasks leave the agent hardly any processor, and each costs memory that the guest's own accounting does not show.
type taskLimit struct{ group string }

// newTaskLimit makes the group. Commands belong to it because the spawner does.
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
