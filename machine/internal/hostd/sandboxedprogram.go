package hostd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/cgroup"
)

const asideEnds = 10 * time.Second

// runInCgroup runs a program that reads a guest's files. So the program is the first OOM victim, and ends with hostd.
func (h *Host) runInCgroup(name string, limits cgroup.Limits, command *exec.Cmd, begun func() error) (err error) {
	group, err := h.groups.Create(name+"-"+strings.ToLower(rand.Text()[:12]), limits)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), asideEnds)
		defer cancel()
		err = errors.Join(err, group.Kill(ctx), group.Delete())
	}()
	// Pdeathsig fires when the starting thread ends, so this goroutine is locked to its thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Pdeathsig = unix.SIGKILL
	if err := command.Start(); err != nil {
		return err
	}
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", command.Process.Pid), []byte("1000"), 0) // best effort: the program may have ended
	err = group.Add(command.Process.Pid)
	if err == nil {
		err = begun()
	}
	if err != nil {
		return errors.Join(err, command.Process.Kill(), command.Wait())
	}
	return command.Wait()
}
