package engine

import (
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAnAgentThatIsBusyAtFirstIsConnectedAllTheSame(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
	first, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	accept := func() {
		if accepted, _, err := unix.Accept(fd); err == nil {
			unix.Close(accepted)
		}
	}
	if second, err := net.DialTimeout("tcp", address, dialTime); err == nil {
		second.Close()
		t.Fatal("a full queue took another connection")
	}
	time.AfterFunc(3*dialTime, accept)
	connection, err := dialAnew(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	connection.Close()
}
