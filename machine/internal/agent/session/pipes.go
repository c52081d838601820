package session

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipes are those of one command: [0] is read from, [1] written to. The pump watches them before the command exists: its first byte
// finds a reader.
type pipes struct {
	stdin, stdout, stderr [2]int // -1 where there is none, or none any more
	taps                  [2]*tap
	uid, gid              int // of their inodes: -1 until giveTo
}

var noPipe = [2]int{-1, -1}

// takePipes gives the spare pipes, or new ones. New ones cost eight calls of the guest's kernel. That takes longer than a worker takes to
// start a process, so some are kept ready.
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

// restockPipes keeps pipes ready for the next command, which most likely runs as the same user. Without them it makes its own, or says why
// not.
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
	default: // another command's
		p.abandon()
	}
}

// giveTo makes the user the owner of the command's ends. Programs open /dev/stdin, /dev/stdout and /dev/stderr by name, which asks for the
// rights of the pipe's inode: the agent's, mode 0600.
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

// closeTheirs lets go of the command's ends, unless that is done.
func (p *pipes) closeTheirs() {
	closeIfOpen(&p.stdin[0])
	closeIfOpen(&p.stdout[1])
	closeIfOpen(&p.stderr[1])
}

// abandon lets go of all: there is no command.
func (p *pipes) abandon() {
	p.closeTheirs()
	closeIfOpen(&p.stdin[1])
	for _, t := range p.taps {
		if t != nil {
			t.close()
		}
	}
}

// feed writes stdin and closes it. A command that does not read it holds one goroutine and its bytes until it ends.
func (p *pipes) feed(data []byte) {
	if p.stdin[1] < 0 {
		return
	}
	// A failure here falls back to a blocking descriptor, which only costs a thread.
	_ = unix.SetNonblock(p.stdin[1], true)
	f := os.NewFile(uintptr(p.stdin[1]), "stdin")
	go func() {
		defer f.Close()
		_, _ = f.Write(data) // EPIPE: the command did not want it all
	}()
}
