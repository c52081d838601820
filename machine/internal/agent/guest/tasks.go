package guest

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// The guest does not see a mount here, because its /sys is bound without submounts. A mount point on the sandbox's
// disk would be missing after a restore in another sandbox.
const tasksDir = "/sys/fs/cgroup"

const spawnerTasks = 24

// The kernel limits tasks, because polling is too slow: five hundred runnable tasks leave the agent hardly any CPU.
// Each task also costs memory that is not charged to the guest.
type taskLimit struct{ group string }

// The spawner enters this group, so every command that it starts is in the group too.
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
