package helper

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

type pipe struct {
	ours   *os.File
	theirs int
}

type pipes struct {
	stdin, stdout, stderr pipe
	once                  sync.Once
}

func newPipes() (*pipes, error) {
	p := &pipes{}
	err := errors.Join(p.stdin.open(1), p.stdout.open(0), p.stderr.open(0))
	if err != nil {
		p.closeTheirs()
		p.closeOurs()
		return nil, err
	}
	return p, nil
}

func (p *pipe) open(kept int) error {
	p.theirs = -1
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	if err := unix.SetNonblock(fds[kept], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return err
	}
	p.ours, p.theirs = os.NewFile(uintptr(fds[kept]), "helper"), fds[1-kept]
	return nil
}

func (p *pipes) closeTheirs() {
	for _, each := range []*pipe{&p.stdin, &p.stdout, &p.stderr} {
		if each.theirs >= 0 {
			unix.Close(each.theirs)
			each.theirs = -1
		}
	}
}

func (p *pipes) closeOurs() {
	p.once.Do(func() {
		for _, each := range []*pipe{&p.stdin, &p.stdout, &p.stderr} {
			if each.ours != nil {
				each.ours.Close()
			}
		}
	})
}

func (p *pipes) feed(data []byte) {
	_, _ = p.stdin.ours.Write(data) // EPIPE: the program did not read it all
	p.stdin.ours.Close()
}

// collect drops output beyond bytesMax, and signals full once.
func collect(from *os.File, bytesMax int, full chan<- struct{}) <-chan []byte {
	done := make(chan []byte, 1)
	go func() {
		var kept []byte
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			room := bytesMax - len(kept)
			kept = append(kept, buffer[:min(n, room)]...)
			if n > room && full != nil {
				full <- struct{}{}
				full = nil
			}
			if err != nil {
				done <- kept
				return
			}
		}
	}()
	return done
}
