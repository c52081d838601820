package engine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/cgroup"
)

// spawner starts runsc in the commands' cgroup, and runsc moves itself to the sandbox's group. A later move by hostd
// would split a sandbox over two cgroups.
//
// The spawner's thread lives as long as hostd. A death signal fires when the parent *thread* ends, so runs of runsc die
// with hostd. The next hostd kills survivors. Sandboxes inherit neither the cgroup nor the signal.
type spawner struct {
	dir    string
	starts chan spawn
}

type spawn struct {
	command *exec.Cmd
	done    chan error
}

func newSpawner(group *cgroup.Group) *spawner {
	s := &spawner{dir: filepath.Dir(group.FreezerFile()), starts: make(chan spawn)}
	go s.run()
	return s
}

func (s *spawner) start(command *exec.Cmd) error {
	next := spawn{command: command, done: make(chan error, 1)}
	s.starts <- next
	return <-next.done
}

func (s *spawner) run() {
	runtime.LockOSThread()
	joined := false
	for next := range s.starts {
		next.done <- s.startHere(next.command, &joined)
	}
}

// On cgroup v1 the thread joins the group and its children inherit it. On v2 the kernel starts the child in the group.
func (s *spawner) startHere(command *exec.Cmd, joined *bool) error {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	tasks := filepath.Join(s.dir, "tasks")
	if _, err := os.Stat(tasks); err == nil {
		if !*joined {
			if err := os.WriteFile(tasks, []byte(strconv.Itoa(unix.Gettid())), 0); err != nil {
				return fmt.Errorf("joining the commands' cgroup: %w", err)
			}
			*joined = true
		}
		return command.Start()
	}
	dir, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	command.SysProcAttr.UseCgroupFD, command.SysProcAttr.CgroupFD = true, int(dir.Fd())
	return command.Start()
}
