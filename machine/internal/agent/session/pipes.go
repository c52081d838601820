package session

import (
	"os"

	"golang.org/x/sys/unix"
)

// The pump watches the read ends [0] before the command starts, so that no output waits.
type pipes struct {
	stdin, stdout, stderr [2]int // -1: none, or closed
	taps                  [2]*pipeReader
	uid, gid              int // owner of the pipes; -1 before giveTo
}

var noPipe = [2]int{-1, -1}

// takePipes uses a ready-made set if there is one. New pipes take eight system calls in gVisor, longer than a
// process start.
func (m *Manager) takePipes(withStdin bool) (p *pipes, err error) {
	select {
	case p = <-m.spare:
	default:
		if p, err = m.pump.newPipes(); err != nil {
			return nil, err
		}
	}
	if withStdin {
		if err := unix.Pipe2(p.stdin[:], unix.O_CLOEXEC); err != nil {
			p.abandon()
			return nil, err
		}
	}
	return p, nil
}

// restockPipes makes the next set for the same user, who most likely runs the next command.
func (m *Manager) restockPipes(uid, gid uint32) {
	if len(m.spare) > 0 {
		return
	}
	p, err := m.pump.newPipes()
	if err != nil {
		return
	}
	if err := p.giveTo(uid, gid); err != nil {
		p.abandon()
		return
	}
	select {
	case m.spare <- p:
	default: // another command restocked first
		p.abandon()
	}
}

// giveTo makes the user the pipes' owner. Opening /dev/stdin, /dev/stdout or /dev/stderr by name checks the pipe's
// inode, which is the agent's with mode 0600.
func (p *pipes) giveTo(uid, gid uint32) error {
	fds := []int{p.stdin[0]}
	if p.uid != int(uid) || p.gid != int(gid) {
		fds = append(fds, p.stdout[1], p.stderr[1])
	}
	for _, fd := range fds {
		if fd < 0 {
			continue
		}
		if err := unix.Fchown(fd, int(uid), int(gid)); err != nil {
			return err
		}
	}
	p.uid, p.gid = int(uid), int(gid)
	return nil
}

func (p *pump) newPipes() (*pipes, error) {
	made := &pipes{stdin: noPipe, stdout: noPipe, stderr: noPipe, uid: -1, gid: -1}
	for i, pipe := range []*[2]int{&made.stdout, &made.stderr} {
		err := unix.Pipe2(pipe[:], unix.O_CLOEXEC)
		if err == nil {
			made.taps[i], err = p.watch(pipe[0])
		}
		if err != nil {
			made.abandon()
			return nil, err
		}
	}
	return made, nil
}

func closeIfOpen(fd *int) {
	if *fd >= 0 {
		unix.Close(*fd)
	}
	*fd = -1
}

func (p *pipes) closeTheirs() {
	closeIfOpen(&p.stdin[0])
	closeIfOpen(&p.stdout[1])
	closeIfOpen(&p.stderr[1])
}

func (p *pipes) abandon() {
	p.closeTheirs()
	closeIfOpen(&p.stdin[1])
	for _, t := range p.taps {
		if t != nil {
			t.close()
		}
	}
}

// feed writes on a goroutine. If the command does not read, the goroutine and the bytes remain in memory.
func (p *pipes) feed(data []byte) {
	if p.stdin[1] < 0 {
		return
	}
	// The error is ignored, because a blocking descriptor costs only a thread.
	_ = unix.SetNonblock(p.stdin[1], true)
	f := os.NewFile(uintptr(p.stdin[1]), "stdin")
	go func() {
		defer f.Close()
		_, _ = f.Write(data) // EPIPE: the command did not read it all
	}()
}
