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
	servantSteady   = time.Minute // one that ran so long is started again at once
	servantReady    = time.Minute
)

// servant is a process that does for machines what hostd, which is root, must not. Its program is this one, and its rights are those of a user
// that owns nothing. It lives on when hostd ends.
type servant struct {
	name     string // how it is called in a list of processes
	command  string
	trace    string // GOTRACEBACK
	uid, gid int
	group    *cgroup.Group
	limits   cgroup.Limits
	sockets  []*os.File // where it serves. They are hostd's, so that what comes while it is started again waits
	ready    string     // what it says when it serves
	where    func(start func() error) error
}

// keepRunning runs it again whenever it ends, until the context ends.
func (h *Host) keepRunning(ctx context.Context, what string, run func() error) {
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

// start returns when the process serves. `begin` is asked for its set-up, a line of JSON, with the connection to it and with what ends it, when the process is
// in its group: nothing of it runs outside. From then on the connection is the caller's, also after an error.
func (s servant) start(instance string, begin func(conn net.Conn, end func()) ([]byte, error)) (*exec.Cmd, error) {
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
	wanted, err := begin(ours, func() { _ = process.Process.Kill() }) // it has ended
	if err == nil {
		err = s.tell(wanted, send, receive)
	}
	if err != nil {
		return nil, errors.Join(err, process.Process.Kill(), process.Wait())
	}
	return process, nil
}

// tell gives it its set-up, and returns when it serves.
func (s servant) tell(setup []byte, send, receive *os.File) error {
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
