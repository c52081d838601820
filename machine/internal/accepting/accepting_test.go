package accepting

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

type listener struct {
	net.Listener
	fails []error
}

func (l *listener) Accept() (net.Conn, error) {
	if len(l.fails) == 0 {
		return nil, nil
	}
	err := l.fails[0]
	l.fails = l.fails[1:]
	return nil, err
}

func TestOneThatIsOutOfFilesAcceptsAgainAndOneThatIsClosedDoesNot(t *testing.T) {
	var out []error
	for _, number := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED, syscall.ENOBUFS} {
		out = append(out, &net.OpError{Op: "accept", Err: number})
	}
	l := &listener{fails: out}
	if _, err := Next(l); err != nil || len(l.fails) > 0 {
		t.Fatal(err, l.fails)
	}
	l.fails = []error{&net.OpError{Op: "accept", Err: net.ErrClosed}}
	if _, err := Next(l); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}
