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

// spawner starts every run of runsc in the commands' cgroup, from its first instruction on: runsc itself moves to the machine's
// cgroup and starts the sandbox there, so that moving it from outside, later, would tear a sandbox apart over two groups.
//
// It is one operating system thread that lives as long as hostd. The children ask to be killed when their parent *thread* ends, so
// a kill of hostd takes them along; what survives even that is in the cgroup, which the next hostd empties. The sandboxes that a run
// leaves behind inherit neither.
type spawner struct {
	dir    string // of the cgroup
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

// startHere joins the group with this thread where a thread can (cgroup v1: its file of tasks), or has the kernel put the child there.
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
