package hostd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/berth-dev/berth/machine/internal/cgroup"
)

const (
	servantPauseMin = 100 * time.Millisecond
	servantPauseMax = 10 * time.Second
	servantSteady   = time.Minute // a process that ran this long is restarted with the shortest pause
	servantReady    = time.Minute
)

// childProcess runs this binary as a user that owns no files, for work that root must not do. It outlives hostd.
type childProcess struct {
	name     string
	command  string
	trace    string // value of GOTRACEBACK
	uid, gid int
	group    *cgroup.Group
	limits   cgroup.Limits
	sockets  []*os.File // listening sockets, owned by hostd so that connections wait during a restart
	ready    string     // the message with which the process reports that it serves
	where    func(start func() error) error
}

func (h *Host) superviseChild(ctx context.Context, what string, run func() error) {
	pause := servantPauseMin
	for ctx.Err() == nil {
		began := time.Now()
		err := run()
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > servantSteady {
			pause = servantPauseMin
		}
		h.log.Error(what+" ended, and is started again", "in", pause.String(), "error", err)
		wait(ctx, nil, pause)
		pause = min(2*pause, servantPauseMax)
	}
}

// start returns when the process serves. Before that, it calls `begin`, which gets the connection and a kill function
// and returns the set-up, one line of JSON. The process is then in its cgroup. From the call on, the caller owns the
// connection, even after an error.
func (s childProcess) start(instance string, begin func(conn net.Conn, end func()) ([]byte, error)) (*exec.Cmd, error) {
	setup, send, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer setup.Close()
	defer send.Close()
	receive, ready, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer receive.Close()
	defer ready.Close()
	ours, theirs, err := linkPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	process := &exec.Cmd{Path: "/proc/self/exe", Dir: "/", Args: []string{"berth-" + instance + "-" + s.name, s.command},
		Env: []string{"GOTRACEBACK=" + s.trace}, Stdin: setup, Stderr: os.Stderr, ExtraFiles: append(s.sockets[:len(s.sockets):len(s.sockets)], ready, theirs),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.gid)}}}
	if err := s.where(process.Start); err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	ready.Close()
	theirs.Close()
	if err := errors.Join(s.group.SetLimits(s.limits), s.group.Add(process.Process.Pid)); err != nil {
		return nil, errors.Join(err, process.Process.Kill(), process.Wait(), ours.Close())
	}
	wanted, err := begin(ours, func() { _ = process.Process.Kill() }) // Kill fails only if the process has ended
	if err == nil {
		err = s.tell(wanted, send, receive)
	}
	if err != nil {
		return nil, errors.Join(err, process.Process.Kill(), process.Wait())
	}
	return process, nil
}

func (s childProcess) tell(setup []byte, send, receive *os.File) error {
	if err := send.SetWriteDeadline(time.Now().Add(servantReady)); err != nil {
		return err
	}
	if _, err := send.Write(append(setup, '\n')); err != nil {
		return err
	}
	if err := receive.SetReadDeadline(time.Now().Add(servantReady)); err != nil {
		return err
	}
	said, err := io.ReadAll(io.LimitReader(receive, int64(len(s.ready))+1))
	if err != nil || string(said) != s.ready {
		return fmt.Errorf("%s did not start: %q: %w", s.command, said, errors.Join(err, io.ErrUnexpectedEOF))
	}
	return nil
}
